// kernels/cuda_device.h: devices that run the kernels of kernels/cuda/: CUDA's, and emulated ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// A device with streams of its own; several may share one card. Errors: NotFound where there is no
/// such ordinal, with how many there are; Unavailable where there is no driver.
StatusOr<std::shared_ptr<Device>> make_cuda_device(int ordinal);
/// Cards whose ordinals count from 0; 0 where there is no driver.
int num_cuda_devices();
/// The same on the processor (emulation/), which every machine has.
StatusOr<std::shared_ptr<Device>> make_emulated_device(int ordinal);
int num_emulated_devices();

/// One kind of work that a library does on a card, where the program and the machine have it.
struct LibraryUse {
  std::string work;  ///< "grouped products"
  std::string by;    ///< the library and its version; or "plain kernel: " and why
  std::int64_t library_calls = 0, plain_calls = 0;  ///< of this device so far
};
/// Of a device that make_cuda_device() or make_emulated_device() made.
std::vector<LibraryUse> cuda_libraries(Device& device);
std::vector<LibraryUse> emulated_libraries(Device& device);

}  // namespace tessera
