// Distances and angles between tensors. Where ranks cut the dim that is measured along, they join
// their parts' powers or products.
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/reduce/norm_powers.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::Binary;
/// What the norm is taken of, with the measured elements in the last dim.
using DifferenceFn = Array (*)(KernelCall&);

double order_of(const Attrs& attrs) { return attrs.get_double("p"); }

Array flat_difference(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Array out = ops::scratch(call, x.shape(), DType::kF64);
  kernels::binary(call.ctx, Binary::kSub, x, call.inputs[1], out);
  return out.try_view({x.num_elements()});
}

Array row_difference(KernelCall& call) {
  const Array out = ops::scratch(call, call.inputs[0].shape(), DType::kF64);
  kernels::binary(call.ctx, Binary::kSub, call.inputs[0], call.inputs[1], out);
  kernels::binary_scalar(call.ctx, Binary::kAdd, out, call.attrs.get_double("eps"), out);
  return out;
}

/// A dim of size 1 at `dim`.
Array unsqueezed(const Array& x, int dim) {
  Shape shape = x.shape(), strides = x.strides();
  shape.insert(shape.begin() + dim, 1);
  strides.insert(strides.begin() + dim, 1);
  return x.as_strided(shape, strides, x.offset());
}

/// x1 (…, P, M), x2 (…, R, M) → (…, P, R, M)
Array all_differences(KernelCall& call) {
  const Array &x1 = call.inputs[0], &x2 = call.inputs[1];
  const int ndim = x1.ndim();
  Shape shape = x1.shape();
  shape.insert(shape.end() - 1, x2.size(ndim - 2));
  const Array out = ops::scratch(call, shape, DType::kF64);
  kernels::binary(call.ctx, Binary::kSub, unsqueezed(x1, ndim - 1), unsqueezed(x2, ndim - 2), out);
  return out;
}

template <DifferenceFn kDifference>
void local_powers(KernelCall& call) {
  const Array rows = kDifference(call);
  call.outputs[0] =
      ops::scratch(call, Shape(rows.shape().begin(), rows.shape().end() - 1), DType::kF64);
  kernels::fold_rows(call.ctx, ops::folding_of(order_of(call.attrs)), rows, call.outputs[0]);
}

void take_root(KernelCall& call) {
  ops::take_root(call.ctx, order_of(call.attrs), call.inputs[0], call.outputs[0]);
}

template <DifferenceFn kDifference>
void run_distance(KernelCall& call) {
  Array powers[1];
  KernelCall local{call.ctx, call.inputs, call.attrs, powers};
  local_powers<kDifference>(local);
  KernelCall root{call.ctx, powers, call.attrs, call.outputs};
  take_root(root);
}

Status check_floating(std::span<const TensorMeta> inputs) {
  for (const TensorMeta& input : inputs) {
    if (is_floating(input.dtype)) continue;
    return invalid_argument("dtype " + std::string(name_of(input.dtype)) +
                            " where a floating type is needed; cast with `to` first");
  }
  return absl::OkStatus();
}

/// Two operands of one shape, with at least `ndim` dims.
Status check_alike(std::span<const TensorMeta> inputs, std::size_t ndim) {
  TSR_RETURN_IF_ERROR(check_floating(inputs));
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  if (a == b && a.size() >= ndim) return absl::OkStatus();
  return invalid_argument("operands " + to_string(a) + " and " + to_string(b) +
                          " must have one shape" + (ndim > 0 ? " of at least one dim" : ""));
}

StatusOr<std::vector<TensorMeta>> infer_dist(std::span<const TensorMeta> inputs, const Attrs&) {
  TSR_RETURN_IF_ERROR(check_alike(inputs, 0));
  return std::vector<TensorMeta>{{{}, promote(inputs[0].dtype, inputs[1].dtype)}};
}
StatusOr<std::vector<TensorMeta>> infer_pairwise(std::span<const TensorMeta> inputs, const Attrs&) {
  TSR_RETURN_IF_ERROR(check_alike(inputs, 1));
  const Shape& x = inputs[0].shape;
  return std::vector<TensorMeta>{
      {Shape(x.begin(), x.end() - 1), promote(inputs[0].dtype, inputs[1].dtype)}};
}
StatusOr<std::vector<TensorMeta>> infer_cdist(std::span<const TensorMeta> inputs, const Attrs&) {
  TSR_RETURN_IF_ERROR(check_floating(inputs));
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  const bool fits = a.size() >= 2 && a.size() == b.size() && a.back() == b.back() &&
                    std::equal(a.begin(), a.end() - 2, b.begin());
  if (!fits) {
    return invalid_argument("x1 " + to_string(a) + " and x2 " + to_string(b) +
                            " must be (..., P, M) and (..., R, M) with equal leading dims");
  }
  Shape shape(a.begin(), a.end() - 1);
  shape.push_back(b[b.size() - 2]);
  return std::vector<TensorMeta>{{shape, promote(inputs[0].dtype, inputs[1].dtype)}};
}

std::vector<Var> opposite(GradContext& c, Var slope) {
  return {ops::grad_like(c, slope, 0), ops::grad_like(c, c.call("neg", {slope}), 1)};
}

std::vector<Var> dist_gradient(GradContext& c) {
  const Var gap = c.call("sub", {c.input(0), c.input(1)});
  return opposite(c,
                  ops::norm_slope(c, {order_of(c.attrs()), {}, gap, c.output(0), c.cotangent(0)}));
}

std::vector<Var> pairwise_gradient(GradContext& c) {
  const Attrs eps = {{"value", c.attrs().get_double("eps")}};
  const Var gap = c.call("add_scalar", {c.call("sub", {c.input(0), c.input(1)})}, eps);
  const Attrs last = {{"dim", std::int64_t{-1}}};
  return opposite(c, ops::norm_slope(c, {order_of(c.attrs()),
                                         {-1},
                                         gap,
                                         c.call("unsqueeze", {c.output(0)}, last),
                                         c.call("unsqueeze", {c.cotangent(0)}, last)}));
}

std::vector<Var> cdist_gradient(GradContext& c) {
  const auto at = [&](Var value, std::int64_t dim) {
    return c.call("unsqueeze", {value}, {{"dim", dim}});
  };
  const Var gap = c.call("sub", {at(c.input(0), -2), at(c.input(1), -3)});
  const Var slope = ops::norm_slope(
      c, {order_of(c.attrs()), {-1}, gap, at(c.output(0), -1), at(c.cotangent(0), -1)});
  const Var by_x1 = c.call("sum", {slope}, {{"dim", Shape{-2}}});
  const Var by_x2 = c.call("neg", {c.call("sum", {slope}, {{"dim", Shape{-3}}})});
  return {ops::grad_like(c, by_x1, 0), ops::grad_like(c, by_x2, 1)};
}

template <DifferenceFn kDifference>
OpDef distance(std::string name, std::string doc, std::string rule, std::string factor) {
  OpDef def = {.name = std::move(name),
               .doc = std::move(doc),
               .args = {in("x1"), in("x2")},
               .attrs = {ops::double_attr("p", 2.0)},
               .rule = std::move(rule),
               .kernel = run_distance<kDifference>,
               .saved_inputs = {0, 1},
               .saved_outputs = {0}};
  def.lowerings = {{std::move(factor), "all-reduce of the ranks' powers or magnitudes",
                    [](const Attrs& attrs) -> std::vector<LoweringStep> {
                      ops::Steps steps(2, 1);
                      const auto powers = steps.value();
                      steps.local(steps.operands(), {powers}, local_powers<kDifference>);
                      steps.all_reduce({powers}, ops::joined_by(order_of(attrs)));
                      steps.local({powers}, {steps.result()}, take_root);
                      return std::move(steps).take();
                    }}};
  return def;
}

constexpr const char* kFarthest =
    "S, S -> P(max): for order inf alone, where the lowering moves as little";

/// In each row of the first operand one element that is farther than the others: where two are as
/// far, the largest distance has no slope to compare.
void spread(int operand, const Shape& shape, std::vector<double>& values) {
  if (operand != 0 || shape.empty() || shape.back() == 0) return;
  const auto size = static_cast<std::size_t>(shape.back());
  for (std::size_t row = 0; row < values.size() / size; ++row) {
    values[row * size + row % size] += 9.0;
  }
}

/// The same shapes with several orders.
std::vector<Sample> samples_of(const std::vector<std::vector<Shape>>& shapes) {
  const double orders[] = {2.0, 1.0, std::numeric_limits<double>::infinity(), 3.0};
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < std::size(orders); ++i) {
    samples.push_back({.shapes = shapes[i % shapes.size()], .attrs = {{"p", orders[i]}}});
    if (std::isinf(orders[i])) samples.back().adjust = spread;
  }
  return samples;
}

Array in_double(KernelCall& call, const Array& x) {
  if (x.dtype() == DType::kF64) return x;
  const Array wide = ops::scratch(call, x.shape(), DType::kF64);
  kernels::copy(call.ctx, x, wide);
  return wide;
}

/// Dots and squares of the rows of two operands.
void local_products(KernelCall& call) {
  const std::vector<int> dims = ops::kernel_dims(call);
  const int pairs[3][2] = {{0, 1}, {0, 0}, {1, 1}};
  const Array wide[] = {in_double(call, call.inputs[0]), in_double(call, call.inputs[1])};
  for (std::size_t i = 0; i < 3; ++i) {
    const Array &a = wide[pairs[i][0]], &b = wide[pairs[i][1]];
    const Array product = ops::scratch(call, a.shape(), DType::kF64);
    kernels::binary(call.ctx, Binary::kMul, a, b, product);
    call.outputs[i] = ops::scratch(call, ops::kept_shape(a.shape(), dims), DType::kF64);
    kernels::reduce(call.ctx, ReduceOp::kSum, product, dims, call.outputs[i]);
  }
}

/// (x·y, x·x, y·y) → cosine
void finish_cosine(KernelCall& call) {
  const double eps = call.attrs.get_double("eps");
  const Array cosine = ops::scratch(call, call.outputs[0].shape(), DType::kF64);
  const Array lengths = ops::scratch(call, cosine.shape(), DType::kF64);
  const auto length = [&](const Array& squares, const Array& out) {
    kernels::unary(call.ctx, kernels::Unary::kSqrt, squares, out);
    kernels::binary_scalar(call.ctx, Binary::kMaximum, out, eps, out);
  };
  length(call.inputs[1], cosine);
  length(call.inputs[2], lengths);
  kernels::binary(call.ctx, Binary::kMul, cosine, lengths, lengths);
  kernels::binary(call.ctx, Binary::kDiv, call.inputs[0], lengths, cosine);
  kernels::copy(call.ctx, cosine, call.outputs[0]);
}

void run_cosine(KernelCall& call) {
  Array sums[3];
  KernelCall local{call.ctx, call.inputs, call.attrs, sums};
  local_products(local);
  KernelCall finish{call.ctx, sums, call.attrs, call.outputs};
  finish_cosine(finish);
}

StatusOr<std::vector<TensorMeta>> infer_cosine(std::span<const TensorMeta> inputs,
                                               const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(check_alike(inputs, 1));
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_reduced(inputs, attrs));
  out[0].dtype = promote(inputs[0].dtype, inputs[1].dtype);
  return out;
}

/// d cos / d x = (y / |y| − cos x / |x|) / |x|
std::vector<Var> cosine_gradient(GradContext& c) {
  const Attrs kept = {{"dim", Shape{c.attrs().get_int("dim")}}, {"keepdim", true}};
  const Var grad = ops::with_kept_dims(c, c.cotangent(0));
  const Var cosine = ops::with_kept_dims(c, c.output(0));
  Var unit[2], size[2];
  for (int i = 0; i < 2; ++i) {
    size[i] = c.call("clamp_min", {c.call("linalg_vector_norm", {c.input(i)}, kept)},
                     {{"min", c.attrs().get_double("eps")}});
    unit[i] = c.call("div", {c.input(i), size[i]});
  }
  std::vector<Var> grads;
  for (int i = 0; i < 2; ++i) {
    const Var slope = c.call("sub", {unit[1 - i], c.call("mul", {cosine, unit[i]})});
    grads.push_back(ops::grad_like(c, c.call("mul", {slope, c.call("div", {grad, size[i]})}), i));
  }
  return grads;
}

void add_cosine(OpTable& table) {
  table.must_add(
      {.name = "cosine_similarity",
       .doc = "Cosine of the angle between x1 and x2 along a dim; lengths count as at least eps.",
       .args = {in("x1"), in("x2")},
       .attrs = {ops::int_attr("dim", 1), ops::double_attr("eps", 1e-8)},
       .rule = "*r@dim, *r@dim -> * | r!",
       .kernel = run_cosine,
       .infer = infer_cosine,
       .gradient = cosine_gradient,
       .saved_inputs = {0, 1},
       .saved_outputs = {0},
       .lowerings =
           {{"r", "all-reduces of products and squares",
             [](const Attrs&) -> std::vector<LoweringStep> {
               ops::Steps steps(2, 1);
               const ops::Steps::Values sums = {steps.value(), steps.value(), steps.value()};
               steps.local(steps.operands(), sums, local_products);
               steps.all_reduce(sums, ReduceOp::kSum);
               steps.local(sums, {steps.result()}, finish_cosine);
               return std::move(steps).take();
             }}},
       .samples = {{.shapes = {{6, 7}, {6, 7}}},
                   {.shapes = {{5, 3}, {5, 3}}, .attrs = {{"dim", 0}}},
                   {.shapes = {{2, 3, 5}, {2, 3, 5}}, .attrs = {{"dim", -1}}}}});
}

}  // namespace

void add_distance_ops(OpTable& table) {
  OpDef dist = distance<flat_difference>("dist", "The p-norm of x1 - x2.", "*, * -> | *!", "*");
  dist.infer = infer_dist;
  dist.gradient = dist_gradient;
  dist.declined = {kFarthest};
  dist.samples = samples_of({{{6, 7}, {6, 7}}, {{5, 3}, {5, 3}}});
  table.must_add(std::move(dist));

  OpDef pairwise = distance<row_difference>("pairwise_distance",
                                            "The p-norm of x1 - x2 + eps over the last dim.",
                                            "*r, *r -> * | r!", "r");
  pairwise.attrs.push_back(ops::double_attr("eps", 1e-6));
  pairwise.infer = infer_pairwise;
  pairwise.gradient = pairwise_gradient;
  pairwise.declined = {kFarthest};
  pairwise.samples = samples_of({{{6, 7}, {6, 7}}, {{5, 3}, {5, 3}}});
  table.must_add(std::move(pairwise));

  OpDef cdist = distance<all_differences>(
      "cdist", "The p-norm of the difference of every row of x1 and every row of x2.",
      "...pm, ...rm -> ...pr | m!", "m");
  cdist.infer = infer_cdist;
  cdist.gradient = cdist_gradient;
  cdist.samples = samples_of({{{6, 7}, {8, 7}}, {{5, 3}, {2, 3}}, {{2, 3, 4}, {2, 5, 4}}});
  cdist.samples.push_back({.shapes = {{6, 6, 6}, {6, 6, 6}}, .differentiable = false});
  table.must_add(std::move(cdist));
  add_cosine(table);
}

}  // namespace tessera
