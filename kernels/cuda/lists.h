// kernels/cuda/lists.h: lists of I64 in device code: entries that fall to a thread, tables that one
// block lays out, and where a number stands in one.
#pragma once

#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {

/// The entries first, first + step, … fall to this thread.
struct ListThreads {
  std::int64_t first, step;
};
__device__ inline ListThreads list_threads() {
  return {static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
          static_cast<std::int64_t>(gridDim.x) * blockDim.x};
}

/// values[i] of [0, n) → the sum of those before it; values[n]: of all. By the block's first warp.
__device__ inline void sum_before(std::int64_t* values, std::int64_t n) {
  if (threadIdx.x >= kLanes) return;
  const int lane = static_cast<int>(threadIdx.x);
  std::int64_t before = 0;
  for (std::int64_t base = 0; base < n; base += kLanes) {
    const std::int64_t i = base + lane;
    const std::int64_t value = i < n ? values[i] : 0;
    const std::int64_t sum = sum_so_far(value, lane);
    if (i < n) values[i] = before + sum - value;
    before += __shfl_sync(kAllLanes, sum, kLanes - 1);
  }
  if (lane == 0) values[n] = before;
}

/// The last of `n` ascending numbers that is not above `value`; 0 where all are.
__device__ inline std::int64_t last_not_above(const std::int64_t* numbers, std::int64_t n,
                                              std::int64_t value) {
  std::int64_t low = 0;
  while (n > 1) {
    const std::int64_t half = n / 2;
    if (numbers[low + half] <= value) {
      low += half;
      n -= half;
    } else {
      n = half;
    }
  }
  return low;
}

inline std::int64_t* list_data(const Array& list) {
  return list.is_null() ? nullptr : device_data<std::int64_t>(list);
}
inline Array list_scratch(KernelContext& ctx, std::int64_t size) {
  return Array::empty({size}, DType::kI64, ctx.allocator);
}

}  // namespace tessera::kernels::TSR_CUDA
