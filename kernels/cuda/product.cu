#include <algorithm>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/lines.h"
#include "kernels/matrix_product.h"
#include "kernels/product_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// A block takes tile after tile, column tiles of one row tile first.
template <class T>
__global__ void __launch_bounds__(ProductTile<ComputeType<T>>::kThreads, 2)
    product_tiles(BatchProduct product, std::int64_t row_tiles, std::int64_t col_tiles) {
  using C = ComputeType<T>;
  using Tile = ProductTile<C>;
  TSR_SHARED(Four<C>, fours, [Tile::kStaged / 4]);
  C* const staged = fours[0].at;
  const BatchMatrix &a = product.a, &b = product.b, &out = product.out;
  const std::int64_t tiles = product.batch * row_tiles * col_tiles;
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::int64_t batch = tile / (row_tiles * col_tiles);
    const std::int64_t row = tile / col_tiles % row_tiles * Tile::kRows;
    const std::int64_t col = tile % col_tiles * Tile::kCols;
    const T* a_data = reinterpret_cast<const T*>(a.data) + batch * a.batch_stride;
    const T* b_data = reinterpret_cast<const T*>(b.data) + batch * b.batch_stride;
    const Factor<T> left{a_data, product.m, a.row_stride, product.k, a.col_stride};
    const Factor<T> right{b_data, product.n, b.col_stride, product.k, b.row_stride};
    C sums[Tile::kThreadRows][Tile::kThreadCols] = {};
    add_products<Tile>(staged, left.from(row), right.from(col), sums);
    const std::int64_t first =
        batch * out.batch_stride + row * out.row_stride + col * out.col_stride;
    store_sums<Tile, T>(out, first, product.m - row, product.n - col, sums);
  }
}

}  // namespace

void tiled_product(KernelContext& ctx, const BatchProduct& product) {
  visit_floating(product.a.dtype, [&]<class T>(TypeTag<T>) {
    using Tile = ProductTile<ComputeType<T>>;
    const std::int64_t row_tiles = tiles_of(product.m, Tile::kRows),
                       col_tiles = tiles_of(product.n, Tile::kCols);
    constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
    const auto blocks =
        static_cast<unsigned>(std::min(product.batch * row_tiles * col_tiles, kMostBlocks));
    const Current current(*ctx.device);
    check(launch<product_tiles<T>>({.blocks = blocks, .threads = Tile::kThreads}, stream_of(ctx),
                                   product, row_tiles, col_tiles),
          *ctx.device, "matmul");
  });
}

void tiled_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  for (const BatchProduct& product : batch_products(a, b, out)) tiled_product(ctx, product);
}

void matmul(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  check_product_dtypes("matmul", a, b, out);
  check_product_shapes(a, b, out);
  if (out.num_elements() == 0) return;
  if (cols_of(a) == 0) return fill(ctx, 0.0, out);
  library_product(ctx, a, b, out);
}

}  // namespace tessera::kernels::TSR_CUDA
