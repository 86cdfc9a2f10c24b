#include "strategies/ops/reduce/norm_powers.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise.h"

namespace tessera::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// `value`, 0 where `divisor` is.
Var unless_zero(GradContext& c, Var value, Var divisor) {
  const Var zero = c.call("eq_scalar", {divisor}, {{"value", 0.0}});
  return c.call("masked_fill", {value, zero}, {{"value", 0.0}});
}

}  // namespace

kernels::RowFolding folding_of(double order) {
  if (order == kInfinity) return {kernels::RowFold::kMaxAbs};
  if (order == -kInfinity) return {kernels::RowFold::kMinAbs};
  if (order == 0.0) return {kernels::RowFold::kCountNonzero};
  if (order == 1.0) return {kernels::RowFold::kSumAbs};
  if (order == 2.0) return {kernels::RowFold::kSumSquares};
  return {kernels::RowFold::kSumAbsPower, order};
}
ReduceOp joined_by(double order) {
  if (order == kInfinity) return ReduceOp::kMax;
  return order == -kInfinity ? ReduceOp::kMin : ReduceOp::kSum;
}

void take_root(KernelContext& ctx, double order, const Array& powers, const Array& out) {
  if (order == 2.0) return kernels::unary(ctx, kernels::Unary::kSqrt, powers, out);
  if (order == 0.0 || order == 1.0 || std::isinf(order)) return kernels::copy(ctx, powers, out);
  kernels::binary_scalar(ctx, kernels::Binary::kPow, powers, 1.0 / order, out);
}

Var norm_slope(GradContext& c, const NormCall& call) {
  const auto& [order, dims, x, norm, grad] = call;
  if (order == 0.0) return c.call("zeros_like", {x});
  if (order == 1.0) return c.call("mul", {c.call("sign", {x}), grad});
  if (order == 2.0) {
    return c.call("mul", {x, unless_zero(c, c.call("div", {grad, norm}), norm)});
  }
  const Var size = c.call("abs", {x});
  if (std::isinf(order)) {
    const Var hit = c.call("eq", {size, norm});
    const Var hits = c.call("sum", {hit}, {{"dim", dims}, {"keepdim", true}});
    const Var share = c.call("mul", {c.call("sign", {x}), c.call("div", {grad, hits})});
    const Var moves = c.call("logical_and", {hit, c.call("ne_scalar", {x}, {{"value", 0.0}})});
    return c.call("where_scalar", {moves, share}, {{"other", 0.0}});
  }
  const Attrs exponent = {{"exponent", order - 1.0}};
  const Var scale = c.call("div", {grad, c.call("pow", {norm}, exponent)});
  Var power = c.call("pow", {size}, exponent);
  if (order < 1.0) power = unless_zero(c, power, x);  // an infinite slope, which counts as none
  const Var slope = c.call("mul", {c.call("sign", {x}), power});
  return c.call("mul", {slope, unless_zero(c, scale, norm)});
}

}  // namespace tessera::ops
