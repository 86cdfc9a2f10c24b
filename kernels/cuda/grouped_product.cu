// Products of groups of rows, whose sizes lie on the device: each block finds its own group.
#include <algorithm>

#include "kernels/cuda/grouped_library.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/matrix_product.h"
#include "kernels/product_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// x (T, K), w (E, K, N), out (T, N).
template <class T>
__global__ void __launch_bounds__(GroupTile<ComputeType<T>>::kThreads, 4)
    grouped_tiles(Groups groups, BatchMatrix x, BatchMatrix w, BatchMatrix out, std::int64_t depth,
                  std::int64_t cols, std::int64_t col_tiles) {
  using C = ComputeType<T>;
  using Tile = GroupTile<C>;
  TSR_SHARED(C, staged, [Tile::kStaged]);
  TSR_SHARED(GroupRows, shared_rows, [1]);
  const std::int64_t row_tile = col_tiles == 0 ? 0 : blockIdx.x / col_tiles;
  const GroupRows own = find_rows(groups, shared_rows, [&](int lane) {
    return rows_of_tile<Tile::kRows>(groups, row_tile, lane);
  });
  if (col_tiles == 0 || own.rows <= 0) return;
  const std::int64_t col = blockIdx.x % col_tiles * Tile::kCols;
  C sums[Tile::kThreadRows][Tile::kThreadCols] = {};
  if (own.group < groups.num_groups) {
    const T* rows = reinterpret_cast<const T*>(x.data) + own.begin * x.row_stride;
    const T* weights = reinterpret_cast<const T*>(w.data) + own.group * w.batch_stride;
    const Factor<T> left{rows, own.rows, x.row_stride, depth, x.col_stride};
    const Factor<T> right{weights, cols, w.col_stride, depth, w.row_stride};
    add_products<Tile>(staged, left, right.from(col), sums);
  }
  for_each_sum<Tile>(own.rows, cols - col, [&](int i, int j, int r, int c) {
    store_sum<T>(out, (own.begin + r) * out.row_stride + (col + c) * out.col_stride, sums[i][j]);
  });
}

/// x (T, K), grad (T, N), out (E, K, N).
template <class T>
__global__ void __launch_bounds__(GroupTile<ComputeType<T>>::kThreads, 4)
    grouped_weight_tiles(Groups groups, BatchMatrix x, BatchMatrix grad, BatchMatrix out,
                         std::int64_t depth, std::int64_t cols, std::int64_t row_tiles,
                         std::int64_t col_tiles) {
  using C = ComputeType<T>;
  using Tile = GroupTile<C>;
  TSR_SHARED(C, staged, [Tile::kStaged]);
  TSR_SHARED(GroupRows, shared_rows, [1]);
  const std::int64_t tiles = row_tiles * col_tiles;
  const std::int64_t group = tiles == 0 ? 0 : blockIdx.x / tiles;
  const GroupRows own =
      find_rows(groups, shared_rows, [&](int lane) { return rows_of_group(groups, group, lane); });
  if (tiles == 0 || group >= groups.num_groups) return;
  const std::int64_t row = blockIdx.x % tiles / col_tiles * Tile::kRows;
  const std::int64_t col = blockIdx.x % col_tiles * Tile::kCols;
  const T* x_rows = reinterpret_cast<const T*>(x.data) + own.begin * x.row_stride;
  const T* grad_rows = reinterpret_cast<const T*>(grad.data) + own.begin * grad.row_stride;
  const Factor<T> left{x_rows, depth, x.col_stride, own.rows, x.row_stride};
  const Factor<T> right{grad_rows, cols, grad.col_stride, own.rows, grad.row_stride};
  C sums[Tile::kThreadRows][Tile::kThreadCols] = {};
  add_products<Tile>(staged, left.from(row), right.from(col), sums);
  const std::int64_t first = group * out.batch_stride + row * out.row_stride + col * out.col_stride;
  for_each_sum<Tile>(depth - row, cols - col, [&](int i, int j, int r, int c) {
    store_sum<T>(out, first + r * out.row_stride + c * out.col_stride, sums[i][j]);
  });
}

/// At least one block, which looks at the counts.
Grid grid_of(std::int64_t blocks, int threads) {
  return {.blocks = static_cast<unsigned>(std::max<std::int64_t>(blocks, 1)),
          .threads = static_cast<unsigned>(threads)};
}

}  // namespace

void grouped_matmul(KernelContext& ctx, const Array& x_TK, const Array& w_EKN,
                    const Array& counts_E, const Array& out_TN) {
  check_grouped_shapes("grouped_matmul", x_TK, w_EKN, counts_E, out_TN);
  check_product_dtypes("grouped_matmul", x_TK, w_EKN, out_TN);
  const GroupedProduct product = GroupedProduct::of(x_TK, w_EKN, out_TN);
  const Groups groups = groups_of(ctx, "grouped_matmul", counts_E, product.rows);
  const Current current(*ctx.device);
  const bool is_done = library_grouped_product(ctx, groups, product);
  if (count_call(ctx, LibraryWork::kGroupedProduct, is_done)) return;
  visit_floating(x_TK.dtype(), [&]<class T>(TypeTag<T>) {
    using Tile = GroupTile<ComputeType<T>>;
    // Each group may leave a tile unfilled, and so may the rows after the last.
    const std::int64_t row_tiles = product.rows / Tile::kRows + groups.num_groups + 1;
    const std::int64_t col_tiles = product.rows == 0 ? 0 : tiles_of(product.cols, Tile::kCols);
    check(launch<grouped_tiles<T>>(grid_of(row_tiles * col_tiles, Tile::kThreads), stream_of(ctx),
                                   groups, product.x, product.weights, product.out, product.depth,
                                   product.cols, col_tiles),
          *ctx.device, "grouped_matmul");
  });
}

void grouped_matmul_weight_grad(KernelContext& ctx, const Array& x_TK, const Array& grad_TN,
                                const Array& counts_E, const Array& grad_w_EKN) {
  const char* op = "grouped_matmul_weight_grad";
  check_grouped_shapes(op, x_TK, grad_w_EKN, counts_E, grad_TN);
  check_product_dtypes(op, x_TK, grad_TN, grad_w_EKN);
  const GroupedProduct product = GroupedProduct::of(x_TK, grad_w_EKN, grad_TN);
  const Groups groups = groups_of(ctx, op, counts_E, product.rows);
  const Current current(*ctx.device);
  const bool is_done = library_grouped_weight_grad(ctx, groups, product);
  if (count_call(ctx, LibraryWork::kGroupedProduct, is_done)) return;
  visit_floating(x_TK.dtype(), [&]<class T>(TypeTag<T>) {
    using Tile = GroupTile<ComputeType<T>>;
    const std::int64_t row_tiles = tiles_of(product.depth, Tile::kRows),
                       col_tiles = tiles_of(product.cols, Tile::kCols);
    check(launch<grouped_weight_tiles<T>>(
              grid_of(groups.num_groups * row_tiles * col_tiles, Tile::kThreads), stream_of(ctx),
              groups, product.x, product.out, product.weights, product.depth, product.cols,
              row_tiles, col_tiles),
          *ctx.device, op);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
