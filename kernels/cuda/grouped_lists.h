// kernels/cuda/grouped_lists.h: a grouped product as lists of products of matrices, which lie on
// the device like the counts that they follow from: what a library of pointer arrays takes.
#pragma once

#include "kernels/cuda/row_groups.h"
#include "kernels/grouped_plan.h"

namespace tessera::kernels::TSR_CUDA {

/// m x k by k x n. An empty group's m is 0, and nothing else of it is used.
struct GroupSizes {
  int m, n, k;
};
/// One element a group each. Strides are from line to line, in elements, the same for all groups.
struct GroupPointers {
  GroupSizes* sizes;
  std::byte **left, **right, **result;
  std::int64_t *left_stride, *right_stride, *result_stride;
};
struct GroupLists {
  Array memory;
  GroupPointers pointers;
};

/// Lists of out = x · weights and of weights = xᵀ · out. The launch that writes them also notes
/// wrong counts, and writes the zeros that no product does: rows of out after the last group's, and
/// weights of empty groups. Requires plan_grouped_product() and takes_grouped_weight_grad().
GroupLists list_products(KernelContext& ctx, const Groups& groups, const GroupedProduct& product,
                         MatrixOrder weights);
GroupLists list_weight_grads(KernelContext& ctx, const Groups& groups,
                             const GroupedProduct& product);

}  // namespace tessera::kernels::TSR_CUDA
