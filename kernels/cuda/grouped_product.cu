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

/// How many tiles occupy a card: two large ones, or twice as many small ones, on each of 132
/// multiprocessors. The same for every card, so that results are. Parts of fewer rows than
/// kLeastPartRows do not pay for the second pass.
#ifdef __CUDACC__
constexpr std::int64_t kManyTiles = 264, kLeastPartRows = 64;
#else
constexpr std::int64_t kManyTiles = 6, kLeastPartRows = 4;
#endif
constexpr std::int64_t kMostParts = 16;

/// Registers for that many threads.
template <class Tile>
inline constexpr int kBlocksAtOnce = 512 / Tile::kThreads;

/// f.template operator()<Tile>() with the large tile where enough of them cover the results.
template <class T, class F>
void visit_tile(std::int64_t rows, std::int64_t cols, std::int64_t batch, const F& f) {
  using Large = ProductTile<ComputeType<T>>;
  if (tiles_of(rows, Large::kRows) * tiles_of(cols, Large::kCols) * batch >= kManyTiles) {
    return f.template operator()<Large>();
  }
  f.template operator()<SmallTile<ComputeType<T>>>();
}

/// x (T, K), w (E, K, N), out (T, N).
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kBlocksAtOnce<Tile>)
    grouped_tiles(Groups groups, BatchMatrix x, BatchMatrix w, BatchMatrix out, std::int64_t depth,
                  std::int64_t cols, std::int64_t col_tiles) {
  using C = ComputeType<T>;
  TSR_SHARED(Four<C>, fours, [Tile::kStaged / 4]);
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
    add_products<Tile>(fours[0].at, left, right.from(col), sums);
  }
  store_sums<Tile, T>(out, own.begin * out.row_stride + col * out.col_stride, own.rows, cols - col,
                      sums);
}

/// How the results of gradients of weights are dealt out: a block sums one part of a group's rows
/// for one tile.
struct WeightGrid {
  std::int64_t row_tiles, col_tiles, parts;
};

/// x (T, K), grad (T, N), out (E · parts, K, N).
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kBlocksAtOnce<Tile>)
    grouped_weight_tiles(Groups groups, BatchMatrix x, BatchMatrix grad, BatchMatrix out,
                         std::int64_t depth, std::int64_t cols, WeightGrid grid) {
  using C = ComputeType<T>;
  TSR_SHARED(Four<C>, fours, [Tile::kStaged / 4]);
  TSR_SHARED(GroupRows, shared_rows, [1]);
  const std::int64_t tiles = grid.row_tiles * grid.col_tiles;
  const std::int64_t batch = tiles == 0 ? 0 : blockIdx.x / tiles;
  const std::int64_t group = batch / grid.parts, part = batch % grid.parts;
  const GroupRows own =
      find_rows(groups, shared_rows, [&](int lane) { return rows_of_group(groups, group, lane); });
  if (tiles == 0 || group >= groups.num_groups) return;
  const std::int64_t row = blockIdx.x % tiles / grid.col_tiles * Tile::kRows;
  const std::int64_t col = blockIdx.x % grid.col_tiles * Tile::kCols;
  const std::int64_t part_rows = tiles_of(own.rows, static_cast<int>(grid.parts));
  const std::int64_t begin = std::min(own.rows, part * part_rows),
                     end = std::min(own.rows, begin + part_rows);
  const T* x_rows = reinterpret_cast<const T*>(x.data) + own.begin * x.row_stride;
  const T* grad_rows = reinterpret_cast<const T*>(grad.data) + own.begin * grad.row_stride;
  const Factor<T> left{x_rows, depth, x.col_stride, own.rows, x.row_stride};
  const Factor<T> right{grad_rows, cols, grad.col_stride, own.rows, grad.row_stride};
  C sums[Tile::kThreadRows][Tile::kThreadCols] = {};
  add_products<Tile>(fours[0].at, left.between(begin, end).from(row),
                     right.between(begin, end).from(col), sums);
  const std::int64_t first = batch * out.batch_stride + row * out.row_stride + col * out.col_stride;
  store_sums<Tile, T>(out, first, depth - row, cols - col, sums);
}

/// out (E, K, N) = the sums of parts (E, P, K, N), in their order.
template <class T>
__global__ void sum_parts(const ComputeType<T>* parts, std::int64_t num_parts, BatchMatrix out,
                          std::int64_t rows, std::int64_t cols, std::int64_t size) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const std::int64_t matrix = rows * cols, group = at / matrix, inside = at % matrix;
  const ComputeType<T>* const first = parts + group * num_parts * matrix + inside;
  ComputeType<T> sum{0};
  for (std::int64_t part = 0; part < num_parts; ++part) sum += first[part * matrix];
  const std::int64_t to =
      group * out.batch_stride + inside / cols * out.row_stride + inside % cols * out.col_stride;
  if (out.dtype == DType::kF32) {
    reinterpret_cast<float*>(out.data)[to] = convert<float>(sum);
  } else {
    reinterpret_cast<T*>(out.data)[to] = convert<T>(sum);
  }
}

/// At least one block, which looks at the counts.
Grid grid_of(std::int64_t blocks, int threads) {
  return {.blocks = static_cast<unsigned>(std::max<std::int64_t>(blocks, 1)),
          .threads = static_cast<unsigned>(threads)};
}

/// By blocks of one part each where that makes enough of them: few small weights of many rows would
/// leave most of a card idle.
template <class T, class Tile>
void run_weight_grad(KernelContext& ctx, const char* op, const Groups& groups,
                     const GroupedProduct& product) {
  using C = ComputeType<T>;
  WeightGrid grid{tiles_of(product.depth, Tile::kRows), tiles_of(product.cols, Tile::kCols), 1};
  const std::int64_t tiles = groups.num_groups * grid.row_tiles * grid.col_tiles;
  if (tiles > 0) {
    grid.parts = std::clamp<std::int64_t>(
        std::min(2 * kManyTiles / tiles, product.rows / groups.num_groups / kLeastPartRows), 1,
        kMostParts);
  }
  const Grid blocks = grid_of(tiles * grid.parts, Tile::kThreads);
  const auto launch_tiles = [&](const BatchMatrix& out) {
    check(
        launch<grouped_weight_tiles<T, Tile>>(blocks, stream_of(ctx), groups, product.x,
                                              product.out, out, product.depth, product.cols, grid),
        *ctx.device, op);
  };
  if (grid.parts == 1) return launch_tiles(product.weights);
  const Array parts =
      Array::empty({groups.num_groups * grid.parts, product.depth, product.cols},
                   std::is_same_v<C, double> ? DType::kF64 : DType::kF32, ctx.allocator);
  launch_tiles({.data = parts.bytes(),
                .dtype = parts.dtype(),
                .row_stride = product.cols,
                .col_stride = 1,
                .batch_stride = product.depth * product.cols});
  constexpr int kThreads = 256;
  const std::int64_t size = groups.num_groups * product.depth * product.cols;
  check(launch<sum_parts<T>>(grid_of(tiles_of(size, kThreads), kThreads), stream_of(ctx),
                             device_data<const C>(parts), grid.parts, product.weights,
                             product.depth, product.cols, size),
        *ctx.device, op);
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
    visit_tile<T>(product.rows, product.cols, 1, [&]<class Tile>() {
      // Each group may leave a tile unfilled, and so may the rows after the last.
      const std::int64_t row_tiles = product.rows / Tile::kRows + groups.num_groups + 1;
      const std::int64_t col_tiles = product.rows == 0 ? 0 : tiles_of(product.cols, Tile::kCols);
      check(launch<grouped_tiles<T, Tile>>(grid_of(row_tiles * col_tiles, Tile::kThreads),
                                           stream_of(ctx), groups, product.x, product.weights,
                                           product.out, product.depth, product.cols, col_tiles),
            *ctx.device, "grouped_matmul");
    });
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
    visit_tile<T>(product.depth, product.cols, groups.num_groups,
                  [&]<class Tile>() { run_weight_grad<T, Tile>(ctx, op, groups, product); });
  });
}

}  // namespace tessera::kernels::TSR_CUDA
