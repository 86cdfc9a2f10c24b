// strategies/rules/held_part.h: what a rank holds of an operand's dims, as kernels read it.
#pragma once

#include <span>
#include <vector>

#include "kernels/positions.h"
#include "strategies/rules/op.h"

namespace tessera {

/// Requires a view with a spec.
kernels::HeldPart held_part(const OperandView& view, int dim);

/// Row-major positions in this rank's elements of `dims` become those in the whole dims.
/// `positions`: dense I64. Requires a view with a spec.
void globalize_positions(KernelContext& ctx, const OperandView& view, std::span<const int> dims,
                         const Array& positions);

/// The positions in the whole dim of the `count` that this rank holds: I64, one dim. All of them
/// where the view has no spec.
Array held_positions(KernelContext& ctx, const OperandView& view, int dim, std::int64_t count);

}  // namespace tessera
