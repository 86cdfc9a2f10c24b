// Layer, batch, group and instance norm, and batch norm by running statistics. Statistics over a
// dim that ranks cut are joined from the ranks' counts, means and squared deviations.
#include <cmath>

#include "kernels/elementwise.h"
#include "strategies/ops/norm/normalise.h"

namespace tessera {
namespace {

using ops::NormGeometry;

std::vector<int> dims_from(int first, std::size_t ndim) {
  std::vector<int> dims;
  for (int d = first; d < static_cast<int>(ndim); ++d) dims.push_back(d);
  return dims;
}

NormGeometry layer_geometry(const Attrs&, const Shape& x) {
  const int last = static_cast<int>(x.size()) - 1;
  return {.view = x, .statistics = {last}, .parameters = {last}};
}
NormGeometry batch_geometry(const Attrs&, const Shape& x) {
  std::vector<int> statistics = dims_from(2, x.size());
  statistics.insert(statistics.begin(), 0);
  return {.view = x, .statistics = std::move(statistics), .parameters = {1}};
}
NormGeometry instance_geometry(const Attrs&, const Shape& x) {
  return {.view = x, .statistics = dims_from(2, x.size()), .parameters = {1}};
}
NormGeometry group_geometry(const Attrs& attrs, const Shape& x) {
  const std::int64_t groups = attrs.get_int("num_groups");
  Shape view = {x[0], groups, x[1] / groups};
  view.insert(view.end(), x.begin() + 2, x.end());
  return {.view = view, .statistics = dims_from(2, view.size()), .parameters = {1, 2}};
}

Status at_least(const Shape& x, std::size_t ndim, std::string_view what) {
  if (x.size() >= ndim) return absl::OkStatus();
  return invalid_argument("input " + to_string(x) + ", but must have " + std::string(what));
}
Status check_layer(const Attrs&, const Shape& x) { return at_least(x, 1, "a last dim"); }
Status check_batch(const Attrs&, const Shape& x) {
  TSR_RETURN_IF_ERROR(at_least(x, 2, "a batch dim and a channel dim"));
  std::int64_t values = 1;
  for (std::size_t d = 0; d < x.size(); ++d) values *= d == 1 ? 1 : x[d];
  if (values > 0) return absl::OkStatus();
  return invalid_argument("input " + to_string(x) + " holds no value per channel");
}
Status check_instance(const Attrs&, const Shape& x) {
  return at_least(x, 3, "a batch dim, a channel dim and at least one more");
}
Status check_group(const Attrs& attrs, const Shape& x) {
  TSR_RETURN_IF_ERROR(at_least(x, 2, "a batch dim and a channel dim"));
  const std::int64_t groups = attrs.get_int("num_groups");
  if (groups > 0 && x[1] % groups == 0) return absl::OkStatus();
  return invalid_argument("num_groups is " + std::to_string(groups) + ", but must divide the " +
                          std::to_string(x[1]) + " channels of " + to_string(x));
}

/// With weight and bias, with a weight, with neither.
std::vector<Sample> norm_samples(const std::vector<Shape>& shapes, int channel_dim,
                                 const Attrs& attrs) {
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto dim = channel_dim < 0 ? shapes[i].size() - 1 : static_cast<std::size_t>(channel_dim);
    const Shape parameter = {shapes[i][dim]};
    Sample& sample = samples.emplace_back();
    sample.shapes = {shapes[i]};
    sample.attrs = attrs;
    for (std::size_t given = i; given < 2; ++given) sample.shapes.push_back(parameter);
  }
  return samples;
}

std::vector<Sample> group_samples() {
  std::vector<Sample> samples = norm_samples({{6, 6, 6}, {5, 4, 3}, {2, 4, 5}}, 1, {});
  const std::int64_t groups[] = {6, 2, 2};  // 6: statistics large enough to be searched
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].attrs.set("num_groups", groups[i]);
  return samples;
}

void add_statistics_norms(OpTable& table) {
  const AttrDef eps = ops::double_attr("eps", 1e-5);
  ops::add_norm_op(
      table,
      {.name = "layer_norm",
       .doc = "(x - mean) / sqrt(variance + eps) * weight + bias over the last dim, and mean "
              "and 1 / sqrt(...) of each row.",
       .rule = "*r, r?, r? -> *r, *, * | r! | lin[0] B+C",
       .grad_rule = "*r, *r, *, *, r? -> *r, r, r | r! *:sum | lin A",
       .geometry = layer_geometry,
       .check = check_layer,
       .attrs = {eps},
       .lowered = {"r"},
       .samples = norm_samples({{8, 6}, {5, 3}, {2, 8, 4}}, -1, {})});
  ops::add_norm_op(
      table, {.name = "batch_norm",
              .doc = "(x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each "
                     "channel (dim 1) over all other dims, and mean and 1 / sqrt(...) of each.",
              .rule = "bc*, c?, c? -> bc*, c, c | b! *! | lin[0] B+C",
              .grad_rule = "bc*, bc*, c, c, c? -> bc*, c, c | b! *! | lin A",
              .geometry = batch_geometry,
              .check = check_batch,
              .attrs = {eps},
              .lowered = {"b", "*"},
              .grad_finite = {1, 2, 3},
              .samples = norm_samples({{6, 7}, {5, 3, 4}, {3, 2, 5}}, 1, {})});
  ops::add_norm_op(
      table, {.name = "instance_norm",
              .doc = "(x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each "
                     "item's each channel over the dims from 2 on, and mean and 1 / sqrt(...).",
              .rule = "nc*, c?, c? -> nc*, nc, nc | *! | lin[0] B+C",
              .grad_rule = "nc*, nc*, nc, nc, c? -> nc*, c, c | *! n:sum | lin A",
              .geometry = instance_geometry,
              .check = check_instance,
              .attrs = {eps},
              .lowered = {"*"},
              .grad_finite = {1, 2, 3},
              .samples = norm_samples({{6, 6, 7}, {3, 2, 5}, {2, 5, 2, 3}}, 1, {})});
  ops::add_norm_op(
      table,
      {.name = "group_norm",
       .doc = "(x - mean) / sqrt(variance + eps) * weight + bias by the statistics of each "
              "item's each of `num_groups` groups of channels (dim 1) and all later dims, and "
              "mean and 1 / sqrt(...).",
       .rule = "nc*, c?, c? -> nc*, nG, nG | c! *! | lin[0] B+C",
       .grad_rule = "nc*, nc*, nG, nG, c? -> nc*, c, c | c! *! n:sum | lin A",
       .geometry = group_geometry,
       .check = check_group,
       .attrs = {ops::int_attr("num_groups"), eps},
       .lowered = {"*"},
       .declined = {"lowering c: a group may span ranks; gather the channels"},
       .samples = group_samples()});
}

/// x of batch norm's shape with a statistic or parameter per channel.
Array per_channel(const Array& values, const Array& x) {
  Shape shape(x.shape().size(), 1);
  shape[1] = x.size(1);
  return values.try_view(shape);
}

/// (input, mean, variance, weight?, bias?) → the result.
void run_inference(KernelCall& call) {
  using kernels::Binary;
  const Array& x = call.inputs[0];
  const Array variance = call.inputs[2];
  const DType dtype = accumulation_type(x.dtype());
  const Array scale = ops::scratch(call, variance.shape(), dtype);
  kernels::binary_scalar(call.ctx, Binary::kAdd, variance, call.attrs.get_double("eps"), scale);
  kernels::unary(call.ctx, kernels::Unary::kRsqrt, scale, scale);
  if (!call.inputs[3].is_null()) {
    kernels::binary(call.ctx, Binary::kMul, scale, call.inputs[3], scale);
  }
  const Array y = ops::scratch(call, x.shape(), dtype);
  kernels::binary(call.ctx, Binary::kSub, x, per_channel(call.inputs[1], x), y);
  kernels::binary(call.ctx, Binary::kMul, y, per_channel(scale, x), y);
  if (!call.inputs[4].is_null()) {
    kernels::binary(call.ctx, Binary::kAdd, y, per_channel(call.inputs[4], x), y);
  }
  kernels::copy(call.ctx, y, call.outputs[0]);
}

StatusOr<std::vector<TensorMeta>> infer_inference(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(check_batch(attrs, inputs[0].shape));
  const Shape wanted = {inputs[0].shape[1]};
  if (inputs[3].absent && !inputs[4].absent) {
    return invalid_argument("a bias without a weight; give both or neither");
  }
  TSR_RETURN_IF_ERROR(ops::infer_floating(inputs.subspan(0, 1), attrs).status());
  constexpr const char* kNames[] = {"input", "mean", "variance", "weight", "bias"};
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].absent || inputs[i].shape == wanted) continue;
    return invalid_argument(std::string(kNames[i]) + " " + to_string(inputs[i].shape) +
                            ", but an input " + to_string(inputs[0].shape) + " takes " +
                            to_string(wanted));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

/// A value per channel, repeated to the input's shape.
Var to_input(GradContext& c, Var value) {
  const std::size_t ndim = c.input_shape(0).size();
  for (std::size_t d = 2; d < ndim; ++d) value = c.call("unsqueeze", {value}, {{"dim", -1}});
  return value;
}
/// The sum of a value of the input's shape per channel.
Var per_channel_sum(GradContext& c, Var value) {
  Shape dims = {0};
  for (std::size_t d = 2; d < c.input_shape(0).size(); ++d) {
    dims.push_back(static_cast<std::int64_t>(d));
  }
  return c.call("sum", {value}, {{"dim", dims}});
}

std::vector<Var> inference_gradient(GradContext& c) {
  const Var grad = c.cotangent(0);
  const Attrs eps = {{"value", c.attrs().get_double("eps")}};
  const Var rstd = c.call("rsqrt", {c.call("add_scalar", {c.input(2)}, eps)});
  const Var weight = c.input(3);
  const Var scale = weight.defined() ? c.call("mul", {rstd, weight}) : rstd;
  const Var gap = c.call("sub", {c.input(0), to_input(c, c.input(1))});
  const Var gap_sum = per_channel_sum(c, c.call("mul", {grad, gap}));
  const Var grad_sum = per_channel_sum(c, grad);
  const Var cubed = c.call("mul", {c.call("square", {rstd}), scale});
  std::vector<Var> grads(5);
  grads[0] = c.call("mul", {grad, to_input(c, scale)});
  grads[1] = c.call("neg", {c.call("mul", {grad_sum, scale})});
  grads[2] = c.call("mul_scalar", {c.call("mul", {gap_sum, cubed})}, {{"value", -0.5}});
  if (c.needs(3)) grads[3] = c.call("mul", {gap_sum, rstd});
  if (c.needs(4)) grads[4] = grad_sum;
  for (int i = 0; i < 5; ++i) {
    Var& grad_i = grads[static_cast<std::size_t>(i)];
    grad_i = ops::grad_like(c, grad_i, i);  // statistics and weights may be of other dtypes
  }
  return grads;
}

void add_inference(OpTable& table) {
  std::vector<Sample> samples = {
      {.shapes = {{6, 7}, {7}, {7}, {7}, {7}}},
      {.shapes = {{5, 3, 2}, {3}, {3}, {3}}},
      {.shapes = {{2, 3, 5}, {3}, {3}}},
      {.shapes = {{6, 6, 6}, {6}, {6}, {6}, {6}}, .differentiable = false}};
  for (Sample& sample : samples) {
    sample.adjust = [](int operand, const Shape&, std::vector<double>& values) {
      if (operand != 2) return;
      for (double& value : values) value = 0.5 + std::abs(value);  // a variance
    };
  }
  table.must_add(
      {.name = "batch_norm_inference",
       .doc =
           "(x - mean) / sqrt(variance + eps) * weight + bias by given statistics of each channel "
           "(dim 1).",
       .args = {in("input").floating(), in("mean").floating(), in("variance").floating(),
                in_optional("weight").floating(), in_optional("bias").floating()},
       .attrs = {ops::double_attr("eps", 1e-5)},
       .rule = "bc*, c, c, c?, c? -> bc* | lin A*D+B*D+E",
       .kernel = run_inference,
       .infer = infer_inference,
       .gradient = inference_gradient,
       .saved_inputs = {0, 1, 2, 3},
       .declined = {"R, R, R, R, P(max); R, R, R, R, P(min): where the scaled input is infinite, a "
                    "rank that holds the opposite infinity gives NaN"},
       .samples = std::move(samples)});
}

}  // namespace

void add_norms_ops(OpTable& table) {
  add_statistics_norms(table);
  add_inference(table);
}

}  // namespace tessera
