// kernels/cuda/grouped_library.h: grouped products by CUTLASS, where a program has it and the card
// is of compute capability 9.0. All else is for the plain kernel.
#pragma once

#include "kernels/cuda/row_groups.h"
#include "kernels/grouped_plan.h"

namespace tessera::kernels::TSR_CUDA {

/// out = x · weights, as grouped_matmul() has it, wrong counts included. False, with nothing done,
/// where the library does not take it.
bool library_grouped_product(KernelContext& ctx, const Groups& groups,
                             const GroupedProduct& product);
/// weights = xᵀ · out, the same for grouped_matmul_weight_grad().
bool library_grouped_weight_grad(KernelContext& ctx, const Groups& groups,
                                 const GroupedProduct& product);

}  // namespace tessera::kernels::TSR_CUDA
