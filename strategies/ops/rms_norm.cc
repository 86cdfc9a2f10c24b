// Root-mean-square normalisation over the last dim.
#include "kernels/norm.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

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

}  // namespace

void add_rms_norm_ops(OpTable& table) {
  table.must_add(
      {.name = "rms_norm",
       .doc = "x / sqrt(mean x^2 + eps) * weight over the last dim, and the factor 1 / sqrt(...) "
              "of each row.",
       .args = {in("input"), in("weight")},
       .attrs = {ops::double_attr("eps", 1e-5)},
       .rule = "*r, r -> *r, * | r! | lin[0] B",
       .num_outputs = 2,
       .kernel =
           [](KernelCall& call) {
             kernels::rms_norm(call.ctx, call.inputs[0], call.inputs[1],
                               call.attrs.get_double("eps"), call.outputs[0], call.outputs[1]);
           },
       .infer = infer_rms_norm,
       .gradient = rms_norm_gradient,
       .saved_inputs = {0, 1},
       .saved_outputs = {1},
       .declined = {"lowering r: needs an all-reduce of the sums of squares inside the op"},
       .samples = {
           {.shapes = {{8, 6}, {6}}}, {.shapes = {{5, 3}, {3}}}, {.shapes = {{2, 8, 4}, {4}}}}});
  table.must_add(
      {.name = "rms_norm_grad",
       .doc = "Cotangents of rms_norm's input and weight.",
       .args = {in("grad"), in("input"), in("rstd"), in("weight")},
       .rule = "*r, *r, *, r -> *r, r | r! *:sum | lin A",
       .num_outputs = 2,
       .kernel =
           [](KernelCall& call) {
             kernels::rms_norm_grad(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                    call.inputs[3], call.outputs[0], call.outputs[1]);
           },
       .infer = ops::like_operands({1, 3}),
       .declined = {"R, R, R, P(sum); R, R, R, P(avg): a weight is read whole in the forward pass"},
       .samples = {{.shapes = {{8, 6}, {8, 6}, {8}, {6}}},
                   {.shapes = {{5, 3}, {5, 3}, {5}, {3}}},
                   {.shapes = {{2, 8, 4}, {2, 8, 4}, {2, 8}, {4}}}}});
}

}  // namespace tessera
