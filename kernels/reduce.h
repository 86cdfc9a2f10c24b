// kernels/reduce.h: reductions over dims, deterministic for any thread count.
// Sums accumulate in accumulation_type(dtype) (F32 pairwise or in F64); NaN wins max and min; an
// empty reduction gives the identity of its kind.
#pragma once

#include <span>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/placement.h"

namespace tessera TSR_API {
namespace kernels {

/// Reduces the dims listed (keepdim: out has size 1 there or lacks them; both are taken).
void reduce(KernelContext& ctx, ReduceOp op, const Array& x, std::span<const int> dims,
            const Array& out);
/// I64 index of the first maximum (or minimum) along `dim`; NaN counts as the extreme.
enum class Extreme : std::uint8_t { kMax, kMin };
void arg_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                 const Array& indices);
/// out = the sum of squares of all elements: F64, no dims.
void sum_of_squares(KernelContext& ctx, const Array& x, const Array& out);

}  // namespace kernels
}  // namespace tessera
