// Norms and logarithms of sums over dims. Where a dim is cut, ranks join their powers or their
// maxima and sums.
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/row_fold.h"
#include "strategies/ops/reduce/norm_powers.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::Binary;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// ATen calls the order `p` in one op and `ord` in the other.
double order_of(const Attrs& attrs) {
  return attrs.has("p") ? attrs.get_double("p") : attrs.get_double("ord");
}

void local_powers(KernelCall& call) {
  const Array rows = ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
  call.outputs[0] =
      ops::scratch(call, Shape(rows.shape().begin(), rows.shape().end() - 1), DType::kF64);
  kernels::fold_rows(call.ctx, ops::folding_of(order_of(call.attrs)), rows, call.outputs[0]);
}

void take_root(KernelCall& call) {
  ops::take_root(call.ctx, order_of(call.attrs), call.inputs[0],
                 ops::as_kept(call, call.outputs[0]));
}

void run_norm(KernelCall& call) {
  Array powers[1];
  KernelCall local{call.ctx, call.inputs, call.attrs, powers};
  local_powers(local);
  KernelCall root{call.ctx, powers, call.attrs, call.outputs};
  take_root(root);
}

std::vector<Var> norm_gradient(GradContext& c) {
  return {ops::norm_slope(
      c, {order_of(c.attrs()), c.attrs().get_ints_or("dim", {}), c.input(0),
          ops::with_kept_dims(c, c.output(0)), ops::with_kept_dims(c, c.cotangent(0))})};
}

/// Magnitudes differ, so that one element has the largest.
void spread_magnitudes(int, const Shape&, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 5 == 2 ? 0.0 : values[i] * (1.0 + 0.01 * static_cast<double>(i));
  }
}

void add_norm(OpTable& table, std::string name, std::string_view order) {
  OpDef def = ops::reduction(std::move(name),
                             "Norm over dims: the p-th root of the sum of |x|^p; inf and -inf give "
                             "the largest and smallest magnitude, 0 counts what is not zero.",
                             "*r@dim -> * | r!", run_norm);
  def.attrs.insert(def.attrs.begin(), ops::double_attr(std::string(order), 2.0));
  def.infer = ops::infer_reduced_floating;
  def.gradient = norm_gradient;
  def.saved_inputs = {0};
  def.saved_outputs = {0};
  def.lowerings = {{"r", "all-reduce of the ranks' powers or magnitudes",
                    [](const Attrs& attrs) -> std::vector<LoweringStep> {
                      ops::Steps steps(1, 1);
                      const auto powers = steps.value();
                      steps.local({steps.operand(0)}, {powers}, local_powers);
                      steps.all_reduce({powers}, ops::joined_by(order_of(attrs)));
                      steps.local({powers}, {steps.result()}, take_root);
                      return std::move(steps).take();
                    }}};
  const double orders[] = {1.0, kInfinity, 3.0, -kInfinity, 0.0};
  for (std::size_t i = 0; i < std::size(orders); ++i) {
    Sample sample = def.samples[i % 2];
    sample.attrs.set(order, orders[i]);
    def.samples.push_back(std::move(sample));
  }
  for (Sample& sample : def.samples) sample.adjust = spread_magnitudes;
  def.declined = {
      "S -> P(sum); S -> P(max); S -> P(min): for orders 0 and 1, inf, and -inf alone, where the "
      "lowering moves as little"};
  table.must_add(std::move(def));
}

void local_max(KernelCall& call) {
  const Array rows = ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
  call.outputs[0] = ops::scratch(call, Shape(rows.shape().begin(), rows.shape().end() - 1),
                                 accumulation_type(rows.dtype()));
  kernels::row_max(call.ctx, rows, call.outputs[0]);
}

/// Maxima to subtract: an infinite one would leave NaN.
Array finite(KernelCall& call, const Array& maxima) {
  const Array infinite = ops::scratch(call, maxima.shape(), DType::kBool);
  const Array gap = ops::scratch(call, maxima.shape(), maxima.dtype());
  const Array shift = ops::scratch(call, maxima.shape(), maxima.dtype());
  kernels::binary(call.ctx, Binary::kSub, maxima, maxima, gap);  // NaN unless finite
  kernels::unary(call.ctx, kernels::Unary::kIsNan, gap, infinite);
  kernels::masked_fill(call.ctx, maxima, infinite, 0.0, shift);
  return shift;
}

/// (x, max) → Σ exp(x − max)
void local_sum(KernelCall& call) {
  const Array rows = ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
  call.outputs[0] = ops::scratch(call, call.inputs[1].shape(), call.inputs[1].dtype());
  kernels::row_sum_exp(call.ctx, rows, finite(call, call.inputs[1]), call.outputs[0]);
}

/// (max, sum) → max + log(sum)
void finish(KernelCall& call) {
  const Array log = ops::scratch(call, call.inputs[1].shape(), call.inputs[1].dtype());
  kernels::unary(call.ctx, kernels::Unary::kLog, call.inputs[1], log);
  kernels::binary(call.ctx, Binary::kAdd, finite(call, call.inputs[0]), log,
                  ops::as_kept(call, call.outputs[0]));
}

void run_logsumexp(KernelCall& call) {
  Array parts[2];
  KernelCall maxima{call.ctx, call.inputs, call.attrs, {&parts[0], 1}};
  local_max(maxima);
  const Array operands[] = {call.inputs[0], parts[0]};
  KernelCall sums{call.ctx, operands, call.attrs, {&parts[1], 1}};
  local_sum(sums);
  KernelCall last{call.ctx, parts, call.attrs, call.outputs};
  finish(last);
}

void add_logsumexp(OpTable& table) {
  OpDef def = ops::reduction("logsumexp", "Logarithm of the sum of exponentials over dims.",
                             "*r@dim -> * | r!", run_logsumexp);
  def.infer = ops::infer_reduced_floating;
  def.gradient = [](GradContext& c) -> std::vector<Var> {
    const Var share =
        c.call("exp", {c.call("sub", {c.input(0), ops::with_kept_dims(c, c.output(0))})});
    return {c.call("mul", {share, ops::with_kept_dims(c, c.cotangent(0))})};
  };
  def.saved_inputs = {0};
  def.saved_outputs = {0};
  def.lowerings = {
      {"r", "all-reduces of maxima and of sums", [](const Attrs&) -> std::vector<LoweringStep> {
         ops::Steps steps(1, 1);
         const auto x = steps.operand(0), maxima = steps.value(), sums = steps.value();
         steps.local({x}, {maxima}, local_max);
         steps.all_reduce({maxima}, ReduceOp::kMax);
         steps.local({x, maxima}, {sums}, local_sum);
         steps.all_reduce({sums}, ReduceOp::kSum);
         steps.local({maxima, sums}, {steps.result()}, finish);
         return std::move(steps).take();
       }}};
  table.must_add(std::move(def));
}

}  // namespace

void add_reduce_norms_ops(OpTable& table) {
  add_norm(table, "norm", "p");
  add_norm(table, "linalg_vector_norm", "ord");
  add_logsumexp(table);
}

}  // namespace tessera
