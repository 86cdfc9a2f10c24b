// A program with the device code for cards: makes a device, or says why there is none.
#include <cstdio>
#include <string>

#include "kernels/cuda_device.h"

int main() {
  const auto device = tessera::make_cuda_device(0);
  if (device.ok()) return 0;
  std::fprintf(stderr, "cuda_start: %s\n",
               std::string(tessera::message_of(device.status())).c_str());
  return 4;
}
