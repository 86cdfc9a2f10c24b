#include "kernels/cuda/launch.h"
#include "tests/emulation/samples.h"

namespace tessera::testing {
namespace {

using kernels::launch;

constexpr unsigned kAll = 0xffffffffu;

__global__ void scale_kernel(const float* in, float* out, int n, float factor) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = in[i] * factor + 1.0f;
}

__global__ void reverse_kernel(const int* in, int* out) {
  TSR_SHARED(int, tile, [128]);
  const unsigned first = blockIdx.x * 128;
  tile[threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = tile[127 - threadIdx.x];
}

__global__ void reverse_dynamic_kernel(const int* in, int* out) {
  TSR_DYNAMIC_SHARED(int, tile);
  const unsigned first = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[first + threadIdx.x];
  __syncthreads();
  out[first + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

__device__ float warp_sum(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

__global__ void sum_kernel(const float* in, int n, float* scratch, unsigned* counter, float* out) {
  TSR_SHARED(float, of_warps, [8]);
  TSR_SHARED(bool, is_last, );
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  float value = warp_sum(i < static_cast<unsigned>(n) ? in[i] : 0.0f);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) {
    value = 0.0f;
    for (const float each : of_warps) value += each;
    scratch[blockIdx.x] = value;
    __threadfence();
    is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last || threadIdx.x != 0) return;
  value = 0.0f;
  for (unsigned block = 0; block < gridDim.x; ++block) value += scratch[block];
  out[0] = value;
}

__global__ void histogram_kernel(const int* keys, int n, int* counts) {
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < n;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    atomicAdd(&counts[keys[i]], 1);
  }
}

__global__ void scan_segments_kernel(const int* in, int* out, int width) {
  int value = in[threadIdx.x];
  for (int step = 1; step < width; step *= 2) {
    const int before = __shfl_up_sync(kAll, value, static_cast<unsigned>(step), width);
    if (static_cast<int>(threadIdx.x) % width >= step) value += before;
  }
  out[threadIdx.x] = value;
}

__global__ void votes_kernel(const int* in, unsigned* ballots, int* counts) {
  const unsigned i = blockIdx.x * 64 + threadIdx.x;
  const unsigned votes = __ballot_sync(kAll, in[i] > 0);
  if (threadIdx.x % 32 == 0) ballots[i / 32] = votes;
  const int count = __syncthreads_count(in[i] > 0);
  const bool any = __syncthreads_or(in[i] > 0) != 0;
  const bool all = __syncthreads_and(in[i] > 0) != 0;
  if (threadIdx.x == 0)
    counts[blockIdx.x] = any == (count > 0) && all == (count == 64) ? count : -1;
}

__global__ void exchanges_kernel(const double* in, double* out) {
  const unsigned lane = threadIdx.x;
  const double value = in[lane];
  out[lane] = __shfl_xor_sync(kAll, value, 5);
  out[32 + lane] = __shfl_down_sync(kAll, value, 3);
  out[64 + lane] = __shfl_up_sync(kAll, value, 3);
  out[96 + lane] = __shfl_sync(kAll, value, 7);
}

__global__ void sum_by_parity_kernel(const int* in, int* out) {
  const unsigned mask = threadIdx.x % 2 == 0 ? 0x55555555u : 0xaaaaaaaau;
  int value = in[threadIdx.x];
  if (threadIdx.x % 2 == 0) {
    for (int step = 2; step < 32; step *= 2) value += __shfl_xor_sync(mask, value, step);
    __syncwarp(mask);
  } else {
    __syncwarp(mask);
    for (int step = 16; step > 1; step /= 2) value += __shfl_xor_sync(mask, value, step);
  }
  out[threadIdx.x] = value;
}

__global__ void early_ends_kernel(int* out) {
  TSR_SHARED(int, met, [40]);
  if (threadIdx.x >= 40) return;
  met[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = met[39 - threadIdx.x];
  __syncthreads();
}

__global__ void atomics_kernel(const int* in, int n, int* greatest, int* least, unsigned* bits,
                               unsigned* round, unsigned long long* total) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  atomicMax(greatest, in[i]);
  atomicMin(least, in[i]);
  atomicOr(bits, 1u << (in[i] & 31));
  atomicInc(round, 9);
  unsigned long long seen = 0;  // a guess
  for (;;) {
    const unsigned long long before =
        atomicCAS(total, seen, seen + static_cast<unsigned long long>(in[i]));
    if (before == seen) break;
    seen = before;
  }
}

__global__ void positions_kernel(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      ((blockIdx.x * 10 + blockIdx.y) * 10 + blockIdx.z) * 1000 +
      (threadIdx.x * 10 + threadIdx.y) * 10 + threadIdx.z;
}

__global__ void stuck_kernel(int* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncwarp(0xffffffffu);
    if (threadIdx.x % 2 == 0) __syncwarp(0xffffffffu);
    if (threadIdx.x % 2 == 1) __syncthreads();
  }
  out[threadIdx.x] = 1;
}

__global__ void wrong_mask_kernel(int* out) { out[threadIdx.x] = __shfl_sync(0xfffffffeu, 1, 1); }

__global__ void trap_kernel(int* out) {
  if (blockIdx.x == 1 && threadIdx.x == 5) __trap();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

unsigned blocks_of(int n, int width) { return static_cast<unsigned>((n + width - 1) / width); }

}  // namespace

cudaError_t scale(const float* in, float* out, int n, float factor, cudaStream_t stream) {
  return launch<scale_kernel>({blocks_of(n, 128), 128}, stream, in, out, n, factor);
}
cudaError_t reverse_blocks(const int* in, int* out, int n, cudaStream_t stream) {
  return launch<reverse_kernel>({blocks_of(n, 128), 128}, stream, in, out);
}
cudaError_t reverse_blocks_dynamic(const int* in, int* out, int n, cudaStream_t stream) {
  return launch<reverse_dynamic_kernel>({blocks_of(n, 128), 128, 128 * sizeof(int)}, stream, in,
                                        out);
}
cudaError_t sum(const float* in, int n, float* scratch, unsigned* counter, float* out,
                cudaStream_t stream) {
  return launch<sum_kernel>({blocks_of(n, 256), 256}, stream, in, n, scratch, counter, out);
}
cudaError_t histogram(const int* keys, int n, int* counts, cudaStream_t stream) {
  return launch<histogram_kernel>({3, 64}, stream, keys, n, counts);
}
cudaError_t scan_segments(const int* in, int* out, int width, cudaStream_t stream) {
  return launch<scan_segments_kernel>({1, 32}, stream, in, out, width);
}
cudaError_t votes(const int* in, int n, unsigned* ballots, int* counts, cudaStream_t stream) {
  return launch<votes_kernel>({blocks_of(n, 64), 64}, stream, in, ballots, counts);
}
cudaError_t exchanges(const double* in, double* out, cudaStream_t stream) {
  return launch<exchanges_kernel>({1, 32}, stream, in, out);
}
cudaError_t sum_by_parity(const int* in, int* out, cudaStream_t stream) {
  return launch<sum_by_parity_kernel>({1, 32}, stream, in, out);
}
cudaError_t early_ends(int* out, cudaStream_t stream) {
  return launch<early_ends_kernel>({1, 96}, stream, out);
}
cudaError_t atomics(const int* in, int n, int* greatest, int* least, unsigned* bits,
                    unsigned* round, unsigned long long* total, cudaStream_t stream) {
  return launch<atomics_kernel>({blocks_of(n, 64), 64}, stream, in, n, greatest, least, bits, round,
                                total);
}
cudaError_t positions(unsigned* out, cudaStream_t stream) {
  return launch<positions_kernel>({dim3(2, 3, 2), dim3(4, 2, 2)}, stream, out);
}
cudaError_t stuck_at_barrier(int* out, cudaStream_t stream) {
  return launch<stuck_kernel>({1, 64}, stream, out);
}
cudaError_t wrong_mask(int* out, cudaStream_t stream) {
  return launch<wrong_mask_kernel>({1, 32}, stream, out);
}
cudaError_t trap(int* out, cudaStream_t stream) {
  return launch<trap_kernel>({3, 32}, stream, out);
}

}  // namespace tessera::testing
