// kernels/cuda/attention_tile.h: what attention and its gradients share on the device: operands by
// head, and how tiles of rows of heads are dealt out to blocks.
#pragma once

#include <algorithm>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/vector_math.h"

namespace tessera::kernels::TSR_CUDA {

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
  __device__ Factor<std::remove_const_t<T>> lines(std::int64_t batch, std::int64_t head) const {
    return {at(batch, head), rows, strides[2], cols, strides[3]};
  }
  /// The head's columns as lines along the rows.
  __device__ Factor<std::remove_const_t<T>> columns(std::int64_t batch, std::int64_t head) const {
    return {at(batch, head), cols, strides[3], rows, strides[2]};
  }
  /// The head's elements from (row, col) on.
  __device__ Plane<T> plane(std::int64_t batch, std::int64_t head, std::int64_t row,
                            std::int64_t col) const {
    return {at(batch, head) + row * strides[2] + col * strides[3], strides[2], strides[3]};
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

/// How blocks are dealt out over `lines` heads of any batch from `first_line` on: the tiles with
/// the most to do under a causal bound first, those of all heads, each in chunks of columns.
enum class TileOrder : std::uint8_t { kForward, kBackward };
struct AttentionGrid {
  std::int64_t heads, first_line, lines, tiles, chunks;
  TileOrder order;
};
/// `line`: from the grid's first on.
struct AttentionPlace {
  std::int64_t line, batch, head, tile, chunk;
};
__device__ inline AttentionPlace place_of(const AttentionGrid& grid) {
  const std::int64_t of_line = blockIdx.x / grid.chunks;
  const std::int64_t tile = of_line / grid.lines, line = of_line % grid.lines;
  return {line, (grid.first_line + line) / grid.heads, (grid.first_line + line) % grid.heads,
          grid.order == TileOrder::kForward ? tile : grid.tiles - 1 - tile,
          blockIdx.x % grid.chunks};
}

template <auto kKernel, class... Args>
void launch_attention(KernelContext& ctx, const char* name, int threads, const AttentionGrid& grid,
                      const Args&... args) {
  const std::int64_t blocks = grid.lines * grid.tiles * grid.chunks;
  if (blocks == 0) return;
  const Current current(*ctx.device);
  check(launch<kKernel>(
            {.blocks = static_cast<unsigned>(blocks), .threads = static_cast<unsigned>(threads)},
            stream_of(ctx), grid, args...),
        *ctx.device, name);
}

}  // namespace tessera::kernels::TSR_CUDA
