// strategies/ops/reduce/norm_powers.h: norms of any order as folds of powers that ranks can join,
// and their slopes.
#pragma once

#include "kernels/row_fold.h"
#include "strategies/ops/schema.h"

namespace tessera::ops {

/// What each row folds to before the root is taken.
kernels::RowFolding folding_of(double order);
/// How ranks join such folds.
ReduceOp joined_by(double order);
/// out = the order-th root of what rows fold to.
void take_root(KernelContext& ctx, double order, const Array& powers, const Array& out);

/// What the slope of a norm is taken of: its order, and values with the reduced dims kept.
struct NormCall {
  double order;
  Shape dims;  ///< empty: all
  Var x, norm, grad;
};
/// sign(x) |x|^(p−1) / norm^(p−1), times the cotangent; extremes share it among equals.
Var norm_slope(GradContext& c, const NormCall& call);

}  // namespace tessera::ops
