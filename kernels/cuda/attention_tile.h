// kernels/cuda/attention_tile.h: what attention and its gradients share on the device. A block
// works on some rows of one head; its scores against a tile of the other side's rows become weights
// in shared memory, by which rows of values are added up. Columns of values beyond a tile are
// another block's, which computes the scores again.
#pragma once

#include <algorithm>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/vector_math.h"

namespace tessera::kernels::TSR_CUDA {

#ifdef __CUDACC__
template <class C>
inline constexpr int kScoreEach = sizeof(C) == 8 ? 2 : 4;
template <class C>
using ScoreTile = Tile<16, 16, kScoreEach<C>, kScoreEach<C>, 16>;
template <class C>
using ValueTile = Tile<16, 16, kScoreEach<C>, 2 * kScoreEach<C>, 16>;
#else
template <class C>
using ScoreTile = Tile<8, 4, 2, 2, 4>;
template <class C>
using ValueTile = Tile<8, 4, 2, 3, 4>;
#endif

template <class C>
using Scores = C[ScoreTile<C>::kThreadRows][ScoreTile<C>::kThreadCols];
template <class C>
using ValueSums = C[ValueTile<C>::kThreadRows][ValueTile<C>::kThreadCols];

/// Elements of shared memory: factors of either tile; weights, (other side's row, row).
template <class C>
inline constexpr int kStagedFactors = std::max(ScoreTile<C>::kStaged,
                                               ValueTile<C>::kSteps* ValueTile<C>::kColPitch);
template <class C>
inline constexpr int kSharedWeights = ScoreTile<C>::kCols* ScoreTile<C>::kRowPitch;

__device__ inline float exp_of(float x) { return exp_f32(x); }
__device__ inline double exp_of(double x) { return std::exp(x); }

/// An array (B, H, L, E).
template <class T>
struct Heads {
  T* data;
  std::int64_t rows, cols;
  std::int64_t strides[4];

  explicit Heads(const Array& array)
      : data(reinterpret_cast<T*>(array.bytes())), rows(array.size(2)), cols(array.size(3)) {
    std::copy_n(array.strides().data(), 4, strides);
  }
  __device__ T* at(std::int64_t batch, std::int64_t head) const {
    return data + batch * strides[0] + head * strides[1];
  }
  /// The head's rows as lines along their columns.
  __device__ Factor<T> lines(std::int64_t batch, std::int64_t head) const {
    return {at(batch, head), rows, strides[2], cols, strides[3]};
  }
  /// The head's columns as lines along the rows.
  __device__ Factor<T> columns(std::int64_t batch, std::int64_t head) const {
    return {at(batch, head), cols, strides[3], rows, strides[2]};
  }
};

/// An array (B, H, L).
template <class T>
struct RowValues {
  T* data;
  std::int64_t strides[3];

  explicit RowValues(const Array& array) : data(reinterpret_cast<T*>(array.bytes())) {
    std::copy_n(array.strides().data(), 3, strides);
  }
  __device__ T& at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
    return data[batch * strides[0] + head * strides[1] + row * strides[2]];
  }
};

/// How blocks are dealt out: chunks of columns of a tile of rows side by side, and tiles with the
/// most to do under a causal bound first.
enum class TileOrder : std::uint8_t { kForward, kBackward };
struct AttentionGrid {
  std::int64_t heads, tiles, chunks;
  TileOrder order;
};
struct AttentionPlace {
  std::int64_t batch, head, tile, chunk;
};
__device__ inline AttentionPlace place_of(const AttentionGrid& grid) {
  const std::int64_t block = blockIdx.x, of_tile = block / grid.chunks;
  const std::int64_t index = of_tile / grid.tiles, tile = of_tile % grid.tiles;
  return {index / grid.heads, index % grid.heads,
          grid.order == TileOrder::kForward ? tile : grid.tiles - 1 - tile, block % grid.chunks};
}

/// The place in shared memory of the weight of this thread's row i and column j.
template <class C>
__device__ int weight_at(int i, int j) {
  using S = ScoreTile<C>;
  return S::col(j) * S::kRowPitch + S::row(i);
}

/// sums += weights · values, rows [first, first + kCols of the score tile) of those; of row i and
/// the tile's row p what take(i, p) names. `values`: columns from the block's first on.
template <class C, class T, class Take>
__device__ void add_values(const C* weights, C* staged, const Factor<T>& values, std::int64_t first,
                           ValueSums<C>& sums, const Take& take) {
  using S = ScoreTile<C>;
  using V = ValueTile<C>;
  static_assert(S::kCols % V::kSteps == 0 && S::kRowPitch == V::kRowPitch);
  for (int from = 0; from < S::kCols && first + from < values.depth; from += V::kSteps) {
    stage<V::kCols, V::kSteps, V::kThreads>(staged, values, first + from);
    __syncthreads();
    add_steps<V, V::kSteps>(weights + from * S::kRowPitch, staged, V::kColPitch, sums,
                            [&](int i, int step) { return take(i, from + step); });
    __syncthreads();
  }
}

/// f(i, j, row, col) for each sum of values of this thread that lies in `to`.
template <class C, class T, class F>
__device__ void for_each_value(const Heads<T>& to, std::int64_t row, std::int64_t col, const F& f) {
  for_each_sum<ValueTile<C>>(to.rows - row, to.cols - col, [&](int i, int j, int r, int c) {
    f(i, j, (row + r) * to.strides[2] + (col + c) * to.strides[3]);
  });
}

template <class C>
std::int64_t chunks_of(std::int64_t cols) {
  return std::max<std::int64_t>(1, tiles_of(cols, ValueTile<C>::kCols));
}

template <auto kKernel, class C, class... Args>
void launch_attention(KernelContext& ctx, const char* name, std::int64_t batches,
                      const AttentionGrid& grid, const Args&... args) {
  const std::int64_t blocks = batches * grid.heads * grid.tiles * grid.chunks;
  if (blocks == 0) return;
  const Current current(*ctx.device);
  check(
      launch<kKernel>({.blocks = static_cast<unsigned>(blocks), .threads = ScoreTile<C>::kThreads},
                      stream_of(ctx), grid, args...),
      *ctx.device, name);
}

}  // namespace tessera::kernels::TSR_CUDA
