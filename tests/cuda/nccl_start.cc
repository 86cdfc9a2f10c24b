// A program with NCCL's calls for cards: sums over one rank, or says why it cannot. It links no
// NCCL, and starts where there is none.
#include <cstdio>
#include <string>

#include "kernels/cuda_device.h"
#include "runtime/nccl_world.h"

namespace {

using namespace tessera;

void sum(World& world) {
  const Array ones = Array::empty({1 << 20}, DType::kF32, world.allocator());
  everyone(world).all_reduce(ones, ones, ReduceOp::kSum);
}

}  // namespace

int main() {
  const Status status =
      run_nccl_ranks(1,
                     {.world = {.allocator =
                                    [](std::int64_t) {
                                      return value_or_throw(make_cuda_device(0))->make_allocator();
                                    }}},
                     sum);
  if (status.ok()) return 0;
  std::fprintf(stderr, "nccl_start: %s\n", std::string(message_of(status)).c_str());
  return 4;
}
