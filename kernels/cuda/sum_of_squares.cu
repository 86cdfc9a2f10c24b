// The sum of the squares of all elements: blocks, then one block over their sums.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/elementwise.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1024;
#else
constexpr int kThreads = 64;
constexpr std::int64_t kMostBlocks = 3;
#endif

template <class T>
struct alignas(16) AlignedPack {
  static constexpr std::int64_t kSize = 16 / sizeof(T);
  T values[kSize];
};

template <class T>
__device__ double square_of(T value) {
  const auto wide = convert<double>(value);
  return wide * wide;
}

/// Of the block's threads, at thread 0.
__device__ inline double sum_of_block(double value) {
  TSR_SHARED(double, sums, [kThreads / kLanes]);
  value = warp_sum(value);
  if (threadIdx.x % kLanes == 0) sums[threadIdx.x / kLanes] = value;
  __syncthreads();
  double sum = 0.0;
  if (threadIdx.x == 0) {
    for (int warp = 0; warp < kThreads / kLanes; ++warp) sum += sums[warp];
  }
  return sum;
}

/// The first `packs` · kSize elements are aligned as packs are.
template <class T>
__global__ void sum_squares(const T* x, std::int64_t n, std::int64_t packs, double* sums) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  double sum = 0.0;
  for (std::int64_t i = first; i < packs; i += step) {
    const AlignedPack<T> pack = reinterpret_cast<const AlignedPack<T>*>(x)[i];
    for (std::int64_t j = 0; j < AlignedPack<T>::kSize; ++j) sum += square_of(pack.values[j]);
  }
  for (std::int64_t i = packs * AlignedPack<T>::kSize + first; i < n; i += step)
    sum += square_of(x[i]);
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void add_sums(const double* sums, std::int64_t count, double* total) {
  double sum = 0.0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

void sum_of_squares(KernelContext& ctx, const Array& x, const Array& out) {
  check_shape("sum_of_squares", "out", out, {});
  const Array dense = contiguous(ctx, x);
  const std::int64_t n = dense.num_elements();
  const auto blocks =
      std::clamp<std::int64_t>((n + 16 * kThreads - 1) / (16 * kThreads), 1, kMostBlocks);
  const Array sums = Array::empty({blocks}, DType::kF64, ctx.allocator);
  const Current current(*ctx.device);
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const bool aligned =
        reinterpret_cast<std::uintptr_t>(dense.bytes()) % sizeof(AlignedPack<T>) == 0;
    check(launch<sum_squares<T>>({static_cast<unsigned>(blocks), kThreads}, stream_of(ctx),
                                 device_data<T>(dense), n, aligned ? n / AlignedPack<T>::kSize : 0,
                                 device_data<double>(sums)),
          *ctx.device, "sum_of_squares");
  });
  check(launch<add_sums>({1, kThreads}, stream_of(ctx), device_data<double>(sums), blocks,
                         device_data<double>(out)),
        *ctx.device, "sum_of_squares");
}

}  // namespace tessera::kernels::TSR_CUDA
