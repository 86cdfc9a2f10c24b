#include "strategies/ops/norm/normalise.h"

#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/reduce/moments.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera::ops {
namespace {

using kernels::Binary;

constexpr std::string_view kCount = "count";

Array viewed(KernelContext& ctx, const Array& x, const Shape& view) {
  const Array alias = x.try_view(view);
  return alias.is_null() ? kernels::contiguous(ctx, x).try_view(view) : alias;
}

/// Statistics, or parameters, as arrays that broadcast against the view.
Array spread_statistics(KernelContext& ctx, const Array& x, const NormGeometry& geometry) {
  return viewed(ctx, x, keep_dims(geometry.view, geometry.statistics));
}
Array spread_parameters(KernelContext& ctx, const Array& x, const NormGeometry& geometry) {
  Shape shape(geometry.view.size(), 1);
  for (const int dim : geometry.parameters) {
    shape[static_cast<std::size_t>(dim)] = geometry.view[static_cast<std::size_t>(dim)];
  }
  return viewed(ctx, x, shape);
}

/// All dims of the view but those listed.
std::vector<int> others(const NormGeometry& geometry, const std::vector<int>& dims) {
  std::vector<int> rest;
  for (int d = 0; d < static_cast<int>(geometry.view.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) rest.push_back(d);
  }
  return rest;
}

std::int64_t count_of(const NormGeometry& geometry) {
  std::int64_t count = 1;
  for (const int dim : geometry.statistics) count *= geometry.view[static_cast<std::size_t>(dim)];
  return count;
}

/// Σ of x over dims, as `out`.
void sum_over(KernelCall& call, const Array& x, const std::vector<int>& dims, const Array& out) {
  const Array sums = scratch(call, kept_shape(x.shape(), dims), DType::kF64);
  kernels::reduce(call.ctx, ReduceOp::kSum, x, dims, sums);
  kernels::copy(call.ctx, sums.try_view(out.shape()), out);
}

/// (x − mean)·rstd in the accumulation type.
Array standardised(KernelCall& call, const Array& x, const Array& mean, const Array& rstd) {
  const Array out = scratch(call, x.shape(), accumulation_type(x.dtype()));
  kernels::binary(call.ctx, Binary::kSub, x, mean, out);
  kernels::binary(call.ctx, Binary::kMul, out, rstd, out);
  return out;
}

void local_moments(KernelCall& call, GeometryFn geometry_of) {
  const NormGeometry geometry = geometry_of(call.attrs, call.inputs[0].shape());
  const Array x = viewed(call.ctx, call.inputs[0], geometry.view);
  call.outputs[0] = moments_over(call, x, geometry.statistics);
}

/// (x, weight?, bias?, moments) → out, mean, rstd.
void finish_forward(KernelCall& call, GeometryFn geometry_of) {
  const NormGeometry geometry = geometry_of(call.attrs, call.inputs[0].shape());
  const Array whole = joined_moments(call, call.inputs[3]);
  const Array variance = moment(whole, Moment::kDeviations);
  kernels::binary(call.ctx, Binary::kDiv, variance, moment(whole, Moment::kCount), variance);
  kernels::binary_scalar(call.ctx, Binary::kAdd, variance, call.attrs.get_double("eps"), variance);
  kernels::unary(call.ctx, kernels::Unary::kRsqrt, variance, variance);
  const Array &mean = call.outputs[1], &rstd = call.outputs[2];
  kernels::copy(call.ctx, moment(whole, Moment::kMean), mean);
  kernels::copy(call.ctx, variance, rstd);
  const Array x = viewed(call.ctx, call.inputs[0], geometry.view);
  const Array y = standardised(call, x, spread_statistics(call.ctx, mean, geometry),
                               spread_statistics(call.ctx, rstd, geometry));
  if (!call.inputs[1].is_null()) {
    const Array weight = spread_parameters(call.ctx, call.inputs[1], geometry);
    kernels::binary(call.ctx, Binary::kMul, y, weight, y);
  }
  if (!call.inputs[2].is_null()) {
    const Array bias = spread_parameters(call.ctx, call.inputs[2], geometry);
    kernels::binary(call.ctx, Binary::kAdd, y, bias, y);
  }
  kernels::copy(call.ctx, y, call.outputs[0].try_view(geometry.view));
}

/// The operands of a backward call, seen by its geometry.
struct Backward {
  NormGeometry geometry;
  Array rstd;          ///< broadcasts
  Array standardised;  ///< (x − mean)·rstd
  Array grad;          ///< as given
  Array weighted;      ///< grad·weight
};
Backward backward_of(KernelCall& call, GeometryFn geometry_of) {
  Backward b;
  b.geometry = geometry_of(call.attrs, call.inputs[1].shape());
  const Array x = viewed(call.ctx, call.inputs[1], b.geometry.view);
  b.rstd = spread_statistics(call.ctx, call.inputs[3], b.geometry);
  b.standardised =
      standardised(call, x, spread_statistics(call.ctx, call.inputs[2], b.geometry), b.rstd);
  b.grad = viewed(call.ctx, call.inputs[0], b.geometry.view);
  b.weighted = b.grad;
  if (!call.inputs[4].is_null()) {
    b.weighted = scratch(call, b.geometry.view, b.standardised.dtype());
    kernels::binary(call.ctx, Binary::kMul, b.grad,
                    spread_parameters(call.ctx, call.inputs[4], b.geometry), b.weighted);
  }
  return b;
}

/// (grad, x, mean, rstd, weight?) → gradients of weight and bias, Σ weighted grad and Σ of it times
/// the standardised x over the statistics' dims, both in F64.
void backward_sums(KernelCall& call, GeometryFn geometry_of) {
  const Backward b = backward_of(call, geometry_of);
  const std::vector<int>& over = b.geometry.statistics;
  const std::vector<int> rest = others(b.geometry, b.geometry.parameters);
  const Array product = scratch(call, b.geometry.view, b.standardised.dtype());
  kernels::binary(call.ctx, Binary::kMul, b.grad, b.standardised, product);
  sum_over(call, product, rest, call.outputs[0]);
  sum_over(call, b.grad, rest, call.outputs[1]);
  const Shape kept = kept_shape(b.geometry.view, over);
  call.outputs[2] = scratch(call, kept, DType::kF64);
  call.outputs[3] = scratch(call, kept, DType::kF64);
  sum_over(call, b.weighted, over, call.outputs[2]);
  kernels::binary(call.ctx, Binary::kMul, b.weighted, b.standardised, product);
  sum_over(call, product, over, call.outputs[3]);
}

/// (grad, x, mean, rstd, weight?, Σ, Σ) → rstd (weighted − (Σ + standardised Σ) / count).
void finish_backward(KernelCall& call, GeometryFn geometry_of) {
  const Backward b = backward_of(call, geometry_of);
  const auto count = static_cast<double>(call.attrs.get_int_or(kCount, count_of(b.geometry)));
  const DType dtype = b.standardised.dtype();
  Array shares[2];
  for (std::size_t i = 0; i < 2; ++i) {
    shares[i] = scratch(call, keep_dims(b.geometry.view, b.geometry.statistics), dtype);
    kernels::binary_scalar(call.ctx, Binary::kDiv,
                           spread_statistics(call.ctx, call.inputs[5 + i], b.geometry), count,
                           shares[i]);
  }
  const Array& y = b.standardised;
  kernels::binary(call.ctx, Binary::kMul, y, shares[1], y);
  kernels::binary(call.ctx, Binary::kAdd, y, shares[0], y);
  kernels::binary(call.ctx, Binary::kSub, b.weighted, y, y);
  kernels::binary(call.ctx, Binary::kMul, y, b.rstd, y);
  kernels::copy(call.ctx, y, call.outputs[0].try_view(b.geometry.view));
}

Kernel forward_kernel(GeometryFn geometry) {
  return [geometry](KernelCall& call) {
    Array moments[1];
    KernelCall local{call.ctx, call.inputs, call.attrs, moments};
    local_moments(local, geometry);
    const Array operands[] = {call.inputs[0], call.inputs[1], call.inputs[2], moments[0]};
    KernelCall finish{call.ctx, operands, call.attrs, call.outputs};
    finish_forward(finish, geometry);
  };
}

Kernel backward_kernel(GeometryFn geometry) {
  return [geometry](KernelCall& call) {
    Array sums[4] = {call.outputs[1], call.outputs[2], Array(), Array()};
    KernelCall first{call.ctx, call.inputs, call.attrs, sums};
    backward_sums(first, geometry);
    std::vector<Array> operands(call.inputs.begin(), call.inputs.end());
    operands.insert(operands.end(), {sums[2], sums[3]});
    KernelCall finish{call.ctx, operands, call.attrs, call.outputs};
    finish_backward(finish, geometry);
  };
}

Lowering forward_lowering(const std::string& factor, GeometryFn geometry) {
  return {factor, "counts, means and squared deviations of all ranks",
          [geometry](const Attrs&) -> std::vector<LoweringStep> {
            ops::Steps steps(3, 3);
            const auto x = steps.operand(0), weight = steps.operand(1), bias = steps.operand(2);
            const auto own = steps.value();
            steps.local({x}, {own},
                        [geometry](KernelCall& call) { local_moments(call, geometry); });
            const auto moments = steps.gather(own);
            steps.local({x, weight, bias, moments}, steps.results(),
                        [geometry](KernelCall& call) { finish_forward(call, geometry); });
            return std::move(steps).take();
          }};
}

/// Gradients of parameters that lack the cut factor are summed over the ranks too.
Lowering backward_lowering(const std::string& factor, GeometryFn geometry, bool parameters_cut) {
  return {
      factor, "all-reduces of the sums that the gradient subtracts",
      [geometry, parameters_cut](const Attrs&) -> std::vector<LoweringStep> {
        ops::Steps steps(5, 3);
        ops::Steps::Values operands = steps.operands();
        const auto weight_grad = steps.result(1), bias_grad = steps.result(2);
        const auto sum = steps.value(), product = steps.value();  // what the gradient subtracts
        const ops::Steps::Values sums = {weight_grad, bias_grad, sum, product};
        steps.local(operands, sums,
                    [geometry](KernelCall& call) { backward_sums(call, geometry); });
        steps.all_reduce(parameters_cut ? ops::Steps::Values{sum, product} : sums, ReduceOp::kSum);
        operands.insert(operands.end(), {sum, product});
        steps.local(operands, {steps.result(0)},
                    [geometry](KernelCall& call) { finish_backward(call, geometry); });
        return std::move(steps).take();
      }};
}

Shape parameter_shape(const NormGeometry& geometry) {
  std::int64_t size = 1;
  for (const int dim : geometry.parameters) size *= geometry.view[static_cast<std::size_t>(dim)];
  return {size};
}

Status require_floating(const TensorMeta& input) {
  if (is_floating(input.dtype)) return absl::OkStatus();
  return invalid_argument("input is " + std::string(name_of(input.dtype)) +
                          " where a floating type is needed; cast with `to` first");
}

StatusOr<std::vector<TensorMeta>> infer_forward(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs, const NormOp& norm) {
  const TensorMeta& x = inputs[0];
  TSR_RETURN_IF_ERROR(require_floating(x));
  TSR_RETURN_IF_ERROR(norm.check(attrs, x.shape));
  const NormGeometry geometry = norm.geometry(attrs, x.shape);
  const Shape wanted = parameter_shape(geometry);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].absent || inputs[i].shape == wanted) continue;
    return invalid_argument((i == 1 ? "weight " : "bias ") + to_string(inputs[i].shape) +
                            ", but an input " + to_string(x.shape) + " takes " + to_string(wanted));
  }
  if (inputs[1].absent && !inputs[2].absent) {
    return invalid_argument("a bias without a weight; give both or neither");
  }
  const TensorMeta statistic = {kept_shape(geometry.view, geometry.statistics),
                                accumulation_type(x.dtype)};
  return std::vector<TensorMeta>{x, statistic, statistic};
}

StatusOr<std::vector<TensorMeta>> infer_backward(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs, const NormOp& norm) {
  const TensorMeta& x = inputs[1];
  TSR_RETURN_IF_ERROR(require_floating(x));
  TSR_RETURN_IF_ERROR(norm.check(attrs, x.shape));
  const NormGeometry geometry = norm.geometry(attrs, x.shape);
  const Shape statistic = kept_shape(geometry.view, geometry.statistics);
  if (inputs[0].shape != x.shape || inputs[2].shape != statistic || inputs[3].shape != statistic) {
    return invalid_argument("grad " + to_string(inputs[0].shape) + ", mean " +
                            to_string(inputs[2].shape) + " and rstd " + to_string(inputs[3].shape) +
                            ", but an input " + to_string(x.shape) + " takes " +
                            to_string(x.shape) + ", " + to_string(statistic) + " and " +
                            to_string(statistic));
  }
  const TensorMeta parameter = {parameter_shape(geometry),
                                inputs[4].absent ? x.dtype : inputs[4].dtype};
  return std::vector<TensorMeta>{x, parameter, parameter};
}

/// What reaches x through mean and rstd: grad_mean / n − grad_rstd rstd³ (x − mean) / n.
Var through_statistics(GradContext& c, const NormOp& norm) {
  const Shape& shape = c.input_shape(0);
  const NormGeometry geometry = norm.geometry(c.attrs(), shape);
  const Shape kept = keep_dims(geometry.view, geometry.statistics);
  const auto spread = [&](Var value) {
    const Var wide = c.call("reshape", {value}, {{"shape", kept}});
    return c.call("reshape", {c.call("expand", {wide}, {{"size", geometry.view}})},
                  {{"shape", shape}});
  };
  const double share = 1.0 / static_cast<double>(count_of(geometry));
  Var grad;
  if (c.cotangent(1).defined()) {
    grad = spread(c.call("mul_scalar", {c.cotangent(1)}, {{"value", share}}));
  }
  if (c.cotangent(2).defined()) {
    const Var cubed = c.call("mul", {c.call("square", {c.output(2)}), c.output(2)});
    const Var slope =
        c.call("mul_scalar", {c.call("mul", {c.cotangent(2), cubed})}, {{"value", -share}});
    const Var gap = c.call("sub", {c.input(0), spread(c.output(1))});
    const Var part = c.call("mul", {gap, spread(slope)});
    grad = grad.defined() ? c.call("add", {grad, part}) : part;
  }
  return grad.defined() ? grad_like(c, grad, 0) : grad;
}

std::vector<Var> gradient(GradContext& c, const NormOp& norm) {
  std::vector<Var> grads(3);
  if (c.cotangent(0).defined()) {
    const Var operands[] = {c.cotangent(0), c.input(0), c.output(1), c.output(2), c.input(1)};
    grads = c.call_all(norm.name + "_grad", operands, c.attrs());
    for (int i = 1; i < 3; ++i) {
      Var& grad = grads[static_cast<std::size_t>(i)];
      grad = c.needs(i) ? grad_like(c, grad, i) : Var{};
    }
  }
  const Var more = through_statistics(c, norm);
  if (more.defined()) grads[0] = grads[0].defined() ? c.call("add", {grads[0], more}) : more;
  return grads;
}

/// Samples of the backward op, for those of the forward op.
std::vector<Sample> backward_samples(const NormOp& norm) {
  std::vector<Sample> samples;
  for (const Sample& forward : norm.samples) {
    const Shape& x = forward.shapes[0];
    const NormGeometry geometry = norm.geometry(forward.attrs, x);
    const Shape statistic = kept_shape(geometry.view, geometry.statistics);
    Sample& sample = samples.emplace_back();
    sample.shapes = {x, x, statistic, statistic};
    if (forward.shapes.size() > 1) sample.shapes.push_back(forward.shapes[1]);
    sample.attrs = forward.attrs;
    sample.differentiable = false;
  }
  return samples;
}

OpDef backward_op(const NormOp& norm) {
  OpDef def = {.name = norm.name + "_grad",
               .doc = "Cotangents of " + norm.name + "'s input, weight and bias.",
               .args = {in("grad").floating(), in("input"), in("mean").floating(),
                        in("rstd").floating(), in_optional("weight").floating()},
               .attrs = norm.attrs,
               .rule = norm.grad_rule,
               .num_outputs = 3,
               .kernel = backward_kernel(norm.geometry),
               .finite = norm.grad_finite};
  def.infer = [norm](std::span<const TensorMeta> inputs, const Attrs& attrs) {
    return infer_backward(inputs, attrs, norm);
  };
  def.localize = [geometry = norm.geometry](const Attrs& attrs, std::span<const Spec> inputs,
                                            std::span<const Spec>, const Coord&) {
    Attrs local = attrs;
    local.set(kCount, count_of(geometry(attrs, inputs[1].global_shape())));
    return local;
  };
  for (const std::string& factor : norm.lowered) {
    // Layer norm's parameters carry the dim that its statistics run over.
    def.lowerings.push_back(backward_lowering(factor, norm.geometry, factor == "r"));
  }
  def.declined = {
      "R, R, R, R, P(sum); R, R, R, R, P(avg): a weight is read whole in the forward pass"};
  def.declined.insert(def.declined.end(), norm.declined.begin(), norm.declined.end());
  def.samples = backward_samples(norm);
  return def;
}

}  // namespace

void add_norm_op(OpTable& table, const NormOp& norm) {
  OpDef def = {
      .name = norm.name,
      .doc = norm.doc,
      .args = {in("input"), in_optional("weight").floating(), in_optional("bias").floating()},
      .attrs = norm.attrs,
      .rule = norm.rule,
      .num_outputs = 3,
      .auxiliary_outputs = 2,
      .kernel = forward_kernel(norm.geometry),
      .saved_inputs = {0, 1},
      .saved_outputs = {1, 2},
      .declined = norm.declined,
      .samples = norm.samples};
  def.infer = [norm](std::span<const TensorMeta> inputs, const Attrs& attrs) {
    return infer_forward(inputs, attrs, norm);
  };
  def.gradient = [norm](GradContext& c) { return gradient(c, norm); };
  def.declined.emplace_back(
      "R, R, P(max); R, R, P(min): where the scaled input is infinite, a rank that holds the "
      "opposite infinity, as one without elements does, gives NaN");
  for (const std::string& factor : norm.lowered) {
    def.lowerings.push_back(forward_lowering(factor, norm.geometry));
  }
  table.must_add(std::move(def));
  table.must_add(backward_op(norm));
}

}  // namespace tessera::ops
