// Variance and standard deviation over dims. Ranks that cut a dim join the count, mean and squared
// deviations of their parts, however uneven.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/row_fold.h"
#include "strategies/ops/reduce/moments.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::Binary;

enum class Spread : std::uint8_t { kVariance, kDeviation };

/// Moments (p, 3, …) → variance (or its root), and the mean where it is a result.
template <Spread kSpread>
void finish(KernelCall& call) {
  const Array whole = ops::joined_moments(call, call.inputs[0]);
  const double correction = call.attrs.get_double("correction");
  const Array mean = ops::moment(whole, ops::Moment::kMean);
  const Array spread = ops::moment(whole, ops::Moment::kDeviations);
  const Array count = ops::moment(whole, ops::Moment::kCount);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array none = ops::scratch(call, count.shape(), DType::kBool);  // neither is there
  kernels::binary_scalar(call.ctx, Binary::kEq, count, 0.0, none);
  kernels::masked_fill(call.ctx, mean, none, nan, mean);
  kernels::masked_fill(call.ctx, spread, none, nan, spread);
  const Array divisor = ops::scratch(call, count.shape(), DType::kF64);
  kernels::binary_scalar(call.ctx, Binary::kSub, count, correction, divisor);
  kernels::binary_scalar(call.ctx, Binary::kMaximum, divisor, 0.0, divisor);
  kernels::binary(call.ctx, Binary::kDiv, spread, divisor, spread);
  if (kSpread == Spread::kDeviation) {
    kernels::unary(call.ctx, kernels::Unary::kSqrt, spread, spread);
  }
  kernels::copy(call.ctx, spread, ops::as_kept(call, call.outputs[0]));
  if (call.outputs.size() > 1) kernels::copy(call.ctx, mean, ops::as_kept(call, call.outputs[1]));
}

void local_moments(KernelCall& call) {
  call.outputs[0] = ops::moments_over(call, call.inputs[0], ops::kernel_dims(call));
}

template <Spread kSpread>
void run_spread(KernelCall& call) {
  Array moments[1];
  KernelCall local{call.ctx, call.inputs, call.attrs, moments};
  local_moments(local);
  KernelCall last{call.ctx, moments, call.attrs, call.outputs};
  finish<kSpread>(last);
}

/// d variance = 2 (x − mean) / (n − correction); the root's slope is half its inverse, and none
/// where all elements are one: there it is taken as 0.
template <Spread kSpread>
Var through_spread(GradContext& c, double count) {
  const double freedom = count - c.attrs().get_double("correction");
  Var scale = ops::with_kept_dims(c, c.cotangent(0));
  double factor = 2.0 / freedom;
  if (kSpread == Spread::kDeviation) {
    const Var deviation = ops::with_kept_dims(c, c.output(0));
    const Var none = c.call("eq_scalar", {deviation}, {{"value", 0.0}});
    scale = c.call("masked_fill", {c.call("div", {scale, deviation}), none}, {{"value", 0.0}});
    factor = 1.0 / freedom;
  }
  const Attrs kept = {{"dim", c.attrs().get_ints_or("dim", {})}, {"keepdim", true}};
  const Var gap = c.call("sub", {c.input(0), c.call("mean", {c.input(0)}, kept)});
  return c.call("mul", {gap, c.call("mul_scalar", {scale}, {{"value", factor}})});
}

template <Spread kSpread, int kResults>
std::vector<Var> gradient(GradContext& c) {
  const auto count = static_cast<double>(ops::row_size(c.attrs(), c.input_shape(0)));
  Var grad;
  if (c.cotangent(0).defined()) grad = through_spread<kSpread>(c, count);
  if (kResults > 1 && c.cotangent(1).defined()) {
    const Var mean = ops::expanded(c, c.call("div_scalar", {c.cotangent(1)}, {{"value", count}}));
    grad = grad.defined() ? c.call("add", {grad, mean}) : mean;
  }
  return {grad};
}

template <int kResults>
StatusOr<std::vector<TensorMeta>> infer_spread(std::span<const TensorMeta> inputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto out, ops::infer_reduced_floating(inputs, attrs));
  return std::vector<TensorMeta>(kResults, out[0]);
}

template <Spread kSpread, int kResults>
std::vector<LoweringStep> steps(const Attrs&) {
  ops::Steps steps(1, kResults);
  const auto own = steps.value();
  steps.local({steps.operand(0)}, {own}, local_moments);
  steps.local({steps.gather(own)}, steps.results(), finish<kSpread>);
  return std::move(steps).take();
}

template <Spread kSpread, int kResults>
void add_spread(OpTable& table, const char* name, const char* doc) {
  OpDef def = ops::reduction(name, doc, kResults == 2 ? "*r@dim -> *, * | r!" : "*r@dim -> * | r!",
                             run_spread<kSpread>);
  def.attrs.insert(def.attrs.begin() + 1, ops::double_attr("correction", 1.0));
  def.num_outputs = kResults;
  def.infer = infer_spread<kResults>;
  def.gradient = gradient<kSpread, kResults>;
  def.saved_inputs = {0};
  def.saved_outputs = {0};
  def.lowerings = {
      {"r", "counts, means and squared deviations of all ranks", steps<kSpread, kResults>}};
  def.samples.push_back({.shapes = {{7, 6}}, .attrs = {{"dim", Shape{0}}, {"correction", 0.0}}});
  table.must_add(std::move(def));
}

}  // namespace

void add_reduce_moments_ops(OpTable& table) {
  add_spread<Spread::kVariance, 1>(
      table, "var",
      "Variance over dims, the squares' sum divided by n - correction; NaN of no elements.");
  add_spread<Spread::kDeviation, 1>(
      table, "std", "Standard deviation over dims; without slope where all elements are equal.");
  add_spread<Spread::kVariance, 2>(table, "var_mean",
                                   "Variance and mean over dims, the mean as `mean` has it.");
  add_spread<Spread::kDeviation, 2>(
      table, "std_mean", "Standard deviation and mean over dims, the mean as `mean` has it.");
}

}  // namespace tessera
