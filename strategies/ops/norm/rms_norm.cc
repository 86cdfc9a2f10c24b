// Root-mean-square normalisation over the last dim. Where ranks cut it, they add up the squares,
// and the gradient's products, of their parts of each row.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "kernels/row_fold.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::Binary;

StatusOr<std::vector<TensorMeta>> infer_rms_norm(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  if (x.empty() || weight.size() != 1 || x.back() != weight[0]) {
    return invalid_argument("input " + to_string(x) + " and weight " + to_string(weight) +
                            ": weight must have one dim of the input's last size");
  }
  return std::vector<TensorMeta>{
      inputs[0], {Shape(x.begin(), x.end() - 1), accumulation_type(inputs[0].dtype)}};
}

StatusOr<std::vector<TensorMeta>> infer_rms_norm_grad(std::span<const TensorMeta> inputs,
                                                      const Attrs& attrs) {
  const TensorMeta forward[] = {inputs[1], inputs[3]};
  TSR_ASSIGN_OR_RETURN(const auto results, infer_rms_norm(forward, attrs));
  if (inputs[0].shape != results[0].shape || inputs[2].shape != results[1].shape) {
    return invalid_argument("grad " + to_string(inputs[0].shape) + " and rstd " +
                            to_string(inputs[2].shape) + ", but an input " +
                            to_string(inputs[1].shape) + " has results " +
                            to_string(results[0].shape) + " and " + to_string(results[1].shape));
  }
  return std::vector<TensorMeta>{inputs[1], inputs[3]};
}

/// d rstd / d x = -rstd^3 x / n
Var through_rstd(GradContext& c) {
  const Var rstd = c.output(1);
  const Var cubed = c.call("mul", {c.call("square", {rstd}), rstd});
  const double size = static_cast<double>(c.input_shape(0).back());
  const Var slope =
      c.call("mul_scalar", {c.call("mul", {c.cotangent(1), cubed})}, {{"value", -1.0 / size}});
  const Var column = c.call("unsqueeze", {slope}, {{"dim", -1}});
  return ops::grad_like(c, c.call("mul", {c.input(0), column}), 0);
}

std::vector<Var> rms_norm_gradient(GradContext& c) {
  std::vector<Var> grads(2);
  if (c.cotangent(0).defined()) {
    const Var operands[] = {c.cotangent(0), c.input(0), c.output(1), c.input(1)};
    grads = c.call_all("rms_norm_grad", operands, {});
  }
  if (c.cotangent(1).defined()) {
    const Var more = through_rstd(c);
    grads[0] = grads[0].defined() ? c.call("add", {grads[0], more}) : more;
  }
  return grads;
}

Shape rows_shape(const Array& x) { return {x.shape().begin(), x.shape().end() - 1}; }

/// A value of each row as an array that broadcasts against x.
Array as_column(const Array& rows) {
  Shape shape = rows.shape();
  shape.push_back(1);
  return rows.try_view(shape);
}

double whole_size(const OperandView& view) {
  return static_cast<double>(view.spec->global_shape().back());
}

void local_squares(KernelCall& call) {
  call.outputs[0] = ops::scratch(call, rows_shape(call.inputs[0]), DType::kF64);
  kernels::fold_rows(call.ctx, {kernels::RowFold::kSumSquares}, call.inputs[0], call.outputs[0]);
}

/// (x, weight, Σ x²) → x rstd weight, rstd.
void finish_norm(KernelCall& call) {
  const Array &x = call.inputs[0], &squares = call.inputs[2];
  const Array &out = call.outputs[0], &rstd = call.outputs[1];
  const double size = whole_size(call.input_views[0]), eps = call.attrs.get_double("eps");
  // 1 / sqrt(mean + eps) in the type of whole rows' kernel.
  kernels::copy(call.ctx, squares, rstd);
  kernels::binary_scalar(call.ctx, Binary::kDiv, rstd, size, rstd);
  kernels::binary_scalar(call.ctx, Binary::kAdd, rstd, eps, rstd);
  kernels::unary(call.ctx, kernels::Unary::kRsqrt, rstd, rstd);
  const Array scaled = ops::scratch(call, x.shape(), rstd.dtype());
  kernels::binary(call.ctx, Binary::kMul, x, as_column(rstd), scaled);
  kernels::binary(call.ctx, Binary::kMul, scaled, call.inputs[1], out);
}

std::vector<LoweringStep> norm_steps(const Attrs&) {
  ops::Steps steps(2, 2);
  const auto x = steps.operand(0), weight = steps.operand(1), squares = steps.value();
  steps.local({x}, {squares}, local_squares);
  steps.all_reduce({squares}, ReduceOp::kSum);
  steps.local({x, weight, squares}, steps.results(), finish_norm);
  return std::move(steps).take();
}

/// (grad, x, rstd, weight) → weight's gradient, and Σ grad weight x of each row's part.
void local_products(KernelCall& call) {
  const Array &grad = call.inputs[0], &x = call.inputs[1], &rstd = call.inputs[2];
  const Array unused = ops::scratch(call, x.shape(), x.dtype());
  kernels::rms_norm_grad(call.ctx, grad, x, rstd, call.inputs[3], unused, call.outputs[0]);
  const Array product = ops::scratch(call, x.shape(), accumulation_type(x.dtype()));
  kernels::binary(call.ctx, Binary::kMul, grad, call.inputs[3], product);
  kernels::binary(call.ctx, Binary::kMul, product, x, product);
  call.outputs[1] = ops::scratch(call, rstd.shape(), DType::kF64);
  const int last[] = {x.ndim() - 1};
  kernels::reduce(call.ctx, ReduceOp::kSum, product, last, call.outputs[1]);
}

/// (grad, x, rstd, weight, Σ) → grad weight rstd − x (rstd³ Σ / n), as the kernel of whole rows
/// has it, whose infinities this one then shares.
void finish_grad(KernelCall& call) {
  const Array &x = call.inputs[1], &rstd = call.inputs[2];
  const Array slope = ops::scratch(call, rstd.shape(), accumulation_type(x.dtype()));
  kernels::unary(call.ctx, kernels::Unary::kSquare, rstd, slope);
  kernels::binary(call.ctx, Binary::kMul, slope, rstd, slope);
  kernels::binary(call.ctx, Binary::kMul, slope, call.inputs[4], slope);
  kernels::binary_scalar(call.ctx, Binary::kDiv, slope, whole_size(call.input_views[1]), slope);
  const Array along = ops::scratch(call, x.shape(), accumulation_type(x.dtype()));
  kernels::binary(call.ctx, Binary::kMul, x, as_column(slope), along);
  const Array weighted = ops::scratch(call, x.shape(), accumulation_type(x.dtype()));
  kernels::binary(call.ctx, Binary::kMul, call.inputs[0], call.inputs[3], weighted);
  kernels::binary(call.ctx, Binary::kMul, weighted, as_column(rstd), weighted);
  kernels::binary(call.ctx, Binary::kSub, weighted, along, call.outputs[0]);
}

std::vector<LoweringStep> grad_steps(const Attrs&) {
  ops::Steps steps(4, 2);
  const auto grad = steps.operand(0), x = steps.operand(1), rstd = steps.operand(2),
             weight = steps.operand(3), products = steps.value();
  const auto x_grad = steps.result(0), weight_grad = steps.result(1);
  steps.local({grad, x, rstd, weight}, {weight_grad, products}, local_products);
  steps.all_reduce({products}, ReduceOp::kSum);
  steps.local({grad, x, rstd, weight, products}, {x_grad}, finish_grad);
  return std::move(steps).take();
}

}  // namespace

void add_rms_norm_ops(OpTable& table) {
  table.must_add(
      {.name = "rms_norm",
       .doc = "x / sqrt(mean x^2 + eps) * weight over the last dim, and the factor 1 / sqrt(...) "
              "of each row.",
       .args = {in("input").floating(), in("weight").floating()},
       .attrs = {ops::double_attr("eps", 1e-5)},
       .rule = "*r, r -> *r, * | r! | lin[0] B",
       .num_outputs = 2,
       .auxiliary_outputs = 1,
       .kernel =
           [](KernelCall& call) {
             kernels::rms_norm(call.ctx, call.inputs[0], call.inputs[1],
                               call.attrs.get_double("eps"), call.outputs[0], call.outputs[1]);
           },
       .infer = infer_rms_norm,
       .gradient = rms_norm_gradient,
       .saved_inputs = {0, 1},
       .saved_outputs = {1},
       .lowerings = {{"r", "all-reduce of the sums of squares", norm_steps}},
       .samples = {
           {.shapes = {{8, 6}, {6}}}, {.shapes = {{5, 3}, {3}}}, {.shapes = {{2, 8, 4}, {4}}}}});
  table.must_add(
      {.name = "rms_norm_grad",
       .doc = "Cotangents of rms_norm's input and weight.",
       .args = {in("grad").floating(), in("input").floating(), in("rstd").floating(),
                in("weight").floating()},
       .rule = "*r, *r, *, r -> *r, r | r! *:sum | lin A",
       .num_outputs = 2,
       .kernel =
           [](KernelCall& call) {
             kernels::rms_norm_grad(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                    call.inputs[3], call.outputs[0], call.outputs[1]);
           },
       .infer = infer_rms_norm_grad,
       .lowerings = {{"r", "all-reduce of the sums of products", grad_steps}},
       .finite = {1, 2, 3},
       .declined = {"R, R, R, P(sum); R, R, R, P(avg): a weight is read whole in the forward pass"},
       .samples = {{.shapes = {{8, 6}, {8, 6}, {8}, {6}}},
                   {.shapes = {{5, 3}, {5, 3}, {5}, {3}}},
                   {.shapes = {{2, 8, 4}, {2, 8, 4}, {2, 8}, {4}}}}});
}

}  // namespace tessera
