#include <algorithm>

#include "benchmarks/device_floor.h"
#include "kernels/cuda/cuda_device.h"

namespace tessera::bench {
namespace TSR_CUDA {
namespace {

using namespace tessera::kernels::TSR_CUDA;
using kernels::Grid;
using kernels::launch;

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 132 * 16;

__global__ void do_nothing() {}

__global__ void copy_words(const uint4* from, uint4* to, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) to[i] = from[i];
}

void launch_nothing(KernelContext& ctx) {
  const Current current(*ctx.device);
  check(launch<do_nothing>({.blocks = 1, .threads = 32}, stream_of(ctx)), *ctx.device, "nothing");
}

void copy(KernelContext& ctx, const Array& from, const Array& to) {
  const Current current(*ctx.device);
  const std::int64_t words = from.num_bytes() / static_cast<std::int64_t>(sizeof(uint4));
  const std::int64_t blocks =
      std::clamp<std::int64_t>((words + kThreads - 1) / kThreads, 1, kMostBlocks);
  const Grid grid = {.blocks = static_cast<unsigned>(blocks), .threads = kThreads};
  check(launch<copy_words>(grid, stream_of(ctx), device_data<const uint4>(from),
                           device_data<uint4>(to), words),
        *ctx.device, "copy");
}

}  // namespace
}  // namespace TSR_CUDA

#ifdef __CUDACC__
DeviceFloor cuda_floor() { return {cuda::launch_nothing, cuda::copy}; }
#else
DeviceFloor emulated_floor() { return {emulated::launch_nothing, emulated::copy}; }
#endif

}  // namespace tessera::bench
