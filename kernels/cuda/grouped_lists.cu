#include "kernels/cuda/grouped_lists.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

__device__ std::byte* row_at(const BatchMatrix& matrix, std::int64_t row) {
  return matrix.data + row * matrix.row_stride * size_of(matrix.dtype);
}
__device__ std::byte* matrix_at(const BatchMatrix& matrix, std::int64_t group) {
  return matrix.data + group * matrix.batch_stride * size_of(matrix.dtype);
}

/// Zeros in rows of whole words, by threads that count from `thread` on in steps of `threads`.
__device__ void clear_rows(std::byte* first, std::int64_t rows, std::int64_t row_bytes,
                           std::int64_t pitch_bytes, std::int64_t thread, std::int64_t threads) {
  const std::int64_t words = row_bytes / static_cast<std::int64_t>(sizeof(uint4));
  for (std::int64_t i = thread; i < rows * words; i += threads) {
    reinterpret_cast<uint4*>(first + i / words * pitch_bytes)[i % words] = uint4{0, 0, 0, 0};
  }
}

/// From line to line of the operands and the result.
struct GroupStrides {
  std::int64_t left, right, result;
};
struct ListedProduct {
  GroupSizes sizes;
  std::byte *left, *right, *result;
};
/// By a warp: describe(rows of a group) for every group.
template <class Describe>
__device__ void write_lists(const Groups& groups, const GroupPointers& lists,
                            const GroupStrides& strides, int lane, const Describe& describe) {
  std::int64_t rows_before = 0;
  for (std::int64_t first = 0; first < groups.num_groups; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    if (own.group >= groups.num_groups) continue;
    const ListedProduct product = describe(own);
    lists.sizes[own.group] = product.sizes;
    lists.left[own.group] = product.left;
    lists.right[own.group] = product.right;
    lists.result[own.group] = product.result;
    lists.left_stride[own.group] = strides.left;
    lists.right_stride[own.group] = strides.right;
    lists.result_stride[own.group] = strides.result;
  }
}

__global__ void write_product_lists(Groups groups, GroupedProduct product, GroupPointers lists,
                                    GroupStrides strides) {
  TSR_SHARED(GroupRows, shared_rows, [1]);
  const GroupRows rest = find_rows(groups, shared_rows, [&](int lane) {
    if (blockIdx.x == 0) {
      write_lists(groups, lists, strides, lane, [&](const GroupRows& own) {
        return ListedProduct{{static_cast<int>(own.rows), static_cast<int>(product.cols),
                              static_cast<int>(product.depth)},
                             row_at(product.x, own.begin),
                             matrix_at(product.weights, own.group),
                             row_at(product.out, own.begin)};
      });
    }
    return rows_of_group(groups, groups.num_groups, lane);
  });
  const std::int64_t bytes = size_of(product.out.dtype);
  clear_rows(row_at(product.out, rest.begin), groups.num_rows - rest.begin, product.cols * bytes,
             product.out.row_stride * bytes,
             static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x,
             static_cast<std::int64_t>(gridDim.x) * blockDim.x);
}

__global__ void write_weight_lists(Groups groups, GroupedProduct product, GroupPointers lists,
                                   GroupStrides strides) {
  TSR_SHARED(GroupRows, shared_rows, [1]);
  if (blockIdx.x == 0 && threadIdx.x < kLanes) {
    write_lists(groups, lists, strides, static_cast<int>(threadIdx.x), [&](const GroupRows& own) {
      return ListedProduct{{own.rows == 0 ? 0 : static_cast<int>(product.depth),
                            static_cast<int>(product.cols), static_cast<int>(own.rows)},
                           row_at(product.x, own.begin),
                           row_at(product.out, own.begin),
                           matrix_at(product.weights, own.group)};
    });
  }
  const std::int64_t bytes = size_of(product.weights.dtype);
  for (std::int64_t group = blockIdx.x; group < groups.num_groups; group += gridDim.x) {
    const GroupRows own = find_rows(groups, shared_rows,
                                    [&](int lane) { return rows_of_group(groups, group, lane); });
    if (own.rows == 0) {
      clear_rows(matrix_at(product.weights, group), product.depth, product.cols * bytes,
                 product.weights.row_stride * bytes, threadIdx.x, blockDim.x);
    }
    __syncthreads();
  }
}

/// Enough of them to write some zeros; mostly there are none to write.
Grid list_grid(std::int64_t elements) {
  constexpr unsigned kMostBlocks = 256;
  Grid grid = grid_for(elements);
  grid.blocks.x = std::min(grid.blocks.x, kMostBlocks);
  return grid;
}

GroupLists lists_for(KernelContext& ctx, std::int64_t num_groups) {
  constexpr std::int64_t kBytes =
      3 * sizeof(std::int64_t) + 3 * sizeof(std::byte*) + sizeof(GroupSizes);
  GroupLists lists{scratch_for<std::byte>(ctx, num_groups * kBytes), {}};
  auto* at = device_data<std::byte>(lists.memory);
  const auto take = [&]<class T>(T*& list) {
    list = reinterpret_cast<T*>(at);
    at += num_groups * static_cast<std::int64_t>(sizeof(T));
  };
  take(lists.pointers.left_stride);
  take(lists.pointers.right_stride);
  take(lists.pointers.result_stride);
  take(lists.pointers.left);
  take(lists.pointers.right);
  take(lists.pointers.result);
  take(lists.pointers.sizes);
  return lists;
}

}  // namespace

GroupLists list_products(KernelContext& ctx, const Groups& groups, const GroupedProduct& product,
                         MatrixOrder weights) {
  GroupLists lists = lists_for(ctx, product.num_groups);
  const GroupStrides strides{
      product.x.row_stride,
      weights == MatrixOrder::kRows ? product.weights.row_stride : product.weights.col_stride,
      product.out.row_stride};
  check(launch<write_product_lists>(list_grid(product.rows * product.cols), stream_of(ctx), groups,
                                    product, lists.pointers, strides),
        *ctx.device, "grouped_matmul");
  return lists;
}

GroupLists list_weight_grads(KernelContext& ctx, const Groups& groups,
                             const GroupedProduct& product) {
  GroupLists lists = lists_for(ctx, product.num_groups);
  const GroupStrides strides{product.x.row_stride, product.out.row_stride,
                             product.weights.row_stride};
  Grid grid = list_grid(product.num_groups * product.depth * product.cols);
  grid.blocks.x = std::min(grid.blocks.x, static_cast<unsigned>(product.num_groups));
  check(launch<write_weight_lists>(grid, stream_of(ctx), groups, product, lists.pointers, strides),
        *ctx.device, "grouped_matmul_weight_grad");
  return lists;
}

}  // namespace tessera::kernels::TSR_CUDA
