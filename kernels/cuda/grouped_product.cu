// Products of groups of rows, whose sizes lie on the device: each block finds its own group.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/cuda/product_tile.h"
#include "kernels/matrix_product.h"
#include "kernels/product_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

struct Groups {
  const std::int64_t* counts;
  std::int64_t stride, num_groups, num_rows;
  FaultWord fault;
};

/// Rows of a group, inside of those given whatever the counts say.
struct GroupRows {
  std::int64_t group, begin, rows;
};

template <class T>
__device__ T sum_of_lower_lanes(T value, int lane) {
  T sum = value;
  for (unsigned step = 1; step < kLanes; step *= 2) {
    const T below = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= static_cast<int>(step)) sum += below;
  }
  return sum - value;
}
__device__ inline std::int64_t from_lane(std::int64_t value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

/// Group `first` + lane, none beyond the last. `rows_before` goes on from the groups before `first`
/// to those before the next.
__device__ inline GroupRows lane_group(const Groups& groups, std::int64_t first, int lane,
                                       std::int64_t& rows_before) {
  const std::int64_t group = first + lane;
  const std::int64_t count = group < groups.num_groups ? groups.counts[group * groups.stride] : 0;
  const std::int64_t rows = std::clamp<std::int64_t>(count, 0, groups.num_rows);
  const std::int64_t begin =
      std::min(rows_before + sum_of_lower_lanes(rows, lane), groups.num_rows);
  const GroupRows found{group, begin, std::min(rows, groups.num_rows - begin)};
  rows_before = from_lane(found.begin + found.rows, kLanes - 1);
  return found;
}

__device__ inline void note_bad_counts(const Groups& groups, int lane) {
  std::int64_t rows_before = 0;
  for (std::int64_t first = 0; first < groups.num_groups; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    const bool is_bad =
        own.group < groups.num_groups && groups.counts[own.group * groups.stride] != own.rows;
    if (is_bad) groups.fault.note(own.group);
  }
}

__device__ inline GroupRows rows_of_group(const Groups& groups, std::int64_t group, int lane) {
  std::int64_t rows_before = 0, first = 0;
  for (;; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    if (group >= first + kLanes) continue;
    const auto holder = static_cast<int>(group - first);
    return {group, from_lane(own.begin, holder), from_lane(own.rows, holder)};
  }
}

/// The rows of tile `tile`, where each group begins a new one. Rows after the last group count as
/// another.
template <int kTileRows>
__device__ GroupRows rows_of_tile(const Groups& groups, std::int64_t tile, int lane) {
  std::int64_t rows_before = 0, tiles_before = 0;
  for (std::int64_t first = 0; first < groups.num_groups; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    const std::int64_t tiles = (own.rows + kTileRows - 1) / kTileRows;
    const std::int64_t inside = tile - tiles_before - sum_of_lower_lanes(tiles, lane);
    const unsigned holders = __ballot_sync(kAllLanes, inside >= 0 && inside < tiles);
    if (holders != 0) {
      const int holder = __ffs(static_cast<int>(holders)) - 1;
      const std::int64_t skipped = from_lane(inside, holder) * kTileRows;
      return {first + holder, from_lane(own.begin, holder) + skipped,
              from_lane(own.rows, holder) - skipped};
    }
    tiles_before = tile - from_lane(inside - tiles, kLanes - 1);
  }
  const std::int64_t skipped = (tile - tiles_before) * kTileRows;
  return {groups.num_groups, rows_before + skipped, groups.num_rows - rows_before - skipped};
}

/// What the first warp finds, for the whole block. Block 0 notes what is wrong with the counts.
template <class Find>
__device__ GroupRows find_rows(const Groups& groups, GroupRows* shared, const Find& find) {
  if (threadIdx.x < kLanes) {
    const auto lane = static_cast<int>(threadIdx.x);
    if (blockIdx.x == 0) note_bad_counts(groups, lane);
    const GroupRows found = find(lane);
    if (lane == 0) *shared = found;
  }
  __syncthreads();
  return *shared;
}

/// x (T, K), w (E, K, N), out (T, N).
template <class T>
__global__ void __launch_bounds__(ProductTile<ComputeType<T>>::kThreads, 2)
    grouped_tiles(Groups groups, BatchMatrix x, BatchMatrix w, BatchMatrix out, std::int64_t depth,
                  std::int64_t cols, std::int64_t col_tiles) {
  using C = ComputeType<T>;
  using Tile = ProductTile<C>;
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
__global__ void __launch_bounds__(ProductTile<ComputeType<T>>::kThreads, 2)
    grouped_weight_tiles(Groups groups, BatchMatrix x, BatchMatrix grad, BatchMatrix out,
                         std::int64_t depth, std::int64_t cols, std::int64_t row_tiles,
                         std::int64_t col_tiles) {
  using C = ComputeType<T>;
  using Tile = ProductTile<C>;
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

/// The matrices in the last two dims, the dim before them as the batch.
BatchMatrix matrices_of(const Array& array) {
  const std::size_t ndim = array.strides().size();
  return {array.bytes(), array.dtype(), array.strides()[ndim - 2], array.strides()[ndim - 1],
          ndim > 2 ? array.strides()[ndim - 3] : 0};
}

Groups groups_of(KernelContext& ctx, const char* op, const Array& counts, std::int64_t rows) {
  const auto describe = [op, counts, rows](std::int64_t group) {
    std::int64_t begin = 0;
    for (std::int64_t e = 0; e < group; ++e) begin += integer_at(counts, e);
    return bad_count(op, group, integer_at(counts, group), begin, rows);
  };
  return {device_data<std::int64_t>(counts), counts.strides()[0], counts.size(0), rows,
          device_of(ctx).next_fault_word(describe)};
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
  const std::int64_t rows = x_TK.size(0), cols = out_TN.size(1);
  const Groups groups = groups_of(ctx, "grouped_matmul", counts_E, rows);
  const Current current(*ctx.device);
  visit_floating(x_TK.dtype(), [&]<class T>(TypeTag<T>) {
    using Tile = ProductTile<ComputeType<T>>;
    // Each group may leave a tile unfilled, and so may the rows after the last.
    const std::int64_t row_tiles = rows / Tile::kRows + groups.num_groups + 1;
    const std::int64_t col_tiles = rows == 0 ? 0 : tiles_of(cols, Tile::kCols);
    check(launch<grouped_tiles<T>>(grid_of(row_tiles * col_tiles, Tile::kThreads), stream_of(ctx),
                                   groups, matrices_of(x_TK), matrices_of(w_EKN),
                                   matrices_of(out_TN), x_TK.size(1), cols, col_tiles),
          *ctx.device, "grouped_matmul");
  });
}

void grouped_matmul_weight_grad(KernelContext& ctx, const Array& x_TK, const Array& grad_TN,
                                const Array& counts_E, const Array& grad_w_EKN) {
  const char* op = "grouped_matmul_weight_grad";
  check_grouped_shapes(op, x_TK, grad_w_EKN, counts_E, grad_TN);
  check_product_dtypes(op, x_TK, grad_TN, grad_w_EKN);
  const std::int64_t depth = x_TK.size(1), cols = grad_TN.size(1);
  const Groups groups = groups_of(ctx, op, counts_E, x_TK.size(0));
  const Current current(*ctx.device);
  visit_floating(x_TK.dtype(), [&]<class T>(TypeTag<T>) {
    using Tile = ProductTile<ComputeType<T>>;
    const std::int64_t row_tiles = tiles_of(depth, Tile::kRows),
                       col_tiles = tiles_of(cols, Tile::kCols);
    check(launch<grouped_weight_tiles<T>>(
              grid_of(groups.num_groups * row_tiles * col_tiles, Tile::kThreads), stream_of(ctx),
              groups, matrices_of(x_TK), matrices_of(grad_TN), matrices_of(grad_w_EKN), depth, cols,
              row_tiles, col_tiles),
          *ctx.device, op);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
