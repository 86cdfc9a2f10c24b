// Activations with their numbers; those of one pass with a gradient op of their own are in
// activation.cc.
#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::double_attr;

const char kPlain[] = "* -> *";
const char kIncreasing[] = "* -> * | mono A";

void add_gates(OpTable& table) {
  ops::add_pointwise(
      table,
      {{.name = "log_sigmoid", .doc = "log(sigmoid(x)).", .rule = kIncreasing},
       {.name = "hardsigmoid",
        .doc = "(x + 3) / 6 held between 0 and 1.",
        .rule = kIncreasing,
        .range = {-5.0, 5.1}},
       {.name = "hardswish",
        .doc = "x times hardsigmoid(x).",
        .rule = kPlain,
        .range = {-5.0, 5.1}},
       {.name = "mish",
        .doc = "x tanh(softplus(x)); 0 at -inf.",
        .rule = kPlain,
        .range = {-5.0, 3.0}},
       {.name = "softsign", .doc = "x / (1 + |x|); 1 and -1 at infinity.", .rule = kIncreasing},
       {.name = "tanhshrink", .doc = "x - tanh(x).", .rule = kIncreasing},
       {.name = "softplus",
        .doc = "log(1 + exp(beta x)) / beta, x itself where beta x is above the threshold.",
        .rule = "* -> *",
        .attrs = {double_attr("beta", 1.0), double_attr("threshold", 20.0)},
        .attr_samples = {{}, {{"beta", 2.0}, {"threshold", 1.07}}, {{"beta", 0.5}}},
        .declined = {"P(max) -> P(max); P(min) -> P(min): only for beta > 0, and a threshold "
                     "from about 20 on"}}});
}

/// Between bounds that leave something between them.
StatusOr<std::vector<TensorMeta>> infer_between(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  if (attrs.get_double("min_val") > attrs.get_double("max_val")) {
    return invalid_argument("min_val must not be above max_val, but " + attrs.to_string());
  }
  return ops::infer_elementwise(inputs, attrs);
}

void add_rectifiers(OpTable& table) {
  const std::vector<ArgDef> numbers = {in("self").numbers()};  // BOOL is not clamped to numbers
  ops::add_pointwise(
      table,
      {{.name = "relu6",
        .doc = "The element held between 0 and 6; a NaN stays, and passes its cotangent.",
        .rule = kIncreasing,
        .args = numbers,
        .infer = ops::infer_elementwise,
        .range = {-8.0, 8.3}},
       {.name = "hardtanh",
        .doc = "The element held between min_val and max_val; a NaN stays, and passes its "
               "cotangent.",
        .rule = kIncreasing,
        .args = numbers,
        .attrs = {ops::element_attr("min_val", -1.0), ops::element_attr("max_val", 1.0)},
        .attr_samples = {{}, {{"min_val", -0.537}, {"max_val", 0.737}}},
        .infer = infer_between,
        .range = {-2.0, 2.11}},
       {.name = "leaky_relu",
        .doc = "x where positive, else negative_slope x.",
        .rule = "* -> * | mono A if negative_slope>0",
        .attrs = {double_attr("negative_slope", 0.01)},
        .attr_samples = {{}, {{"negative_slope", -0.3}}, {{"negative_slope", 0.2}}}},
       {.name = "elu",
        .doc = "scale x where positive, else scale alpha (exp(input_scale x) - 1).",
        .rule = kPlain,
        .attrs = {double_attr("alpha", 1.0), double_attr("scale", 1.0),
                  double_attr("input_scale", 1.0)},
        .attr_samples = {{},
                         {{"alpha", -0.7}},
                         {{"alpha", 1.3}, {"scale", 1.1}, {"input_scale", 0.6}}},
        .declined = {"P(max); P(min): where all three numbers are positive, and a clause has "
                     "one guard"}},
       {.name = "selu", .doc = "elu with the self-normalising numbers.", .rule = kIncreasing},
       {.name = "celu",
        .doc = "x where positive, else alpha (exp(x / alpha) - 1).",
        .rule = "* -> * | mono A if alpha>0",
        .attrs = {double_attr("alpha", 1.0)},
        .attr_samples = {{}, {{"alpha", 0.6}}}}});
}

void add_shrinks(OpTable& table) {
  ops::add_pointwise(table, {{.name = "softshrink",
                              .doc = "x moved by lambd towards 0, which it does not pass.",
                              .rule = "* -> * | mono A if lambd>=0",
                              .attrs = {double_attr("lambd", 0.5)},
                              .attr_samples = {{}, {{"lambd", 0.237}}},
                              .range = {-1.6, 1.7}},
                             {.name = "hardshrink",
                              .doc = "0 where the magnitude is at most lambd, else x.",
                              .rule = kIncreasing,
                              .attrs = {double_attr("lambd", 0.5)},
                              .attr_samples = {{}, {{"lambd", 0.237}}},
                              .range = {-1.6, 1.7}},
                             {.name = "threshold",
                              .doc = "x where above threshold, else value.",
                              .rule = kPlain,
                              .attrs = {ops::element_attr("threshold"), ops::element_attr("value")},
                              .attr_samples = {{{"threshold", 0.137}, {"value", 0.9}},
                                               {{"threshold", -0.237}, {"value", -1.5}},
                                               {{"threshold", 0.537}, {"value", 7.0}}},
                              .infer = ops::infer_elementwise,
                              .range = {-1.6, 1.7}}});
}

/// weight [C] over dim 1 of self [N, C, ...].
StatusOr<std::vector<TensorMeta>> infer_prelu(std::span<const TensorMeta> inputs, const Attrs&) {
  if (inputs[0].shape.size() < 2 || inputs[1].shape.size() != 1 ||
      inputs[1].shape[0] != inputs[0].shape[1]) {
    return invalid_argument("weight " + to_string(inputs[1].shape) + " for self " +
                            to_string(inputs[0].shape) + "; it must have one number for dim 1");
  }
  const DType dtype = promote(inputs[0].dtype, inputs[1].dtype);
  if (!is_floating(dtype)) {
    return invalid_argument("dtype " + std::string(name_of(dtype)) +
                            " where a floating type is needed; cast with `to` first");
  }
  return std::vector<TensorMeta>{{inputs[0].shape, dtype}};
}

void run_prelu(KernelCall& call) {
  static const Kernel kernel = ops::pointwise_kernel("prelu");
  Shape along(static_cast<std::size_t>(call.inputs[0].ndim()), 1);
  along[1] = call.inputs[1].size(0);
  const Array operands[] = {call.inputs[0],
                            kernels::contiguous(call.ctx, call.inputs[1]).try_view(along)};
  KernelCall plain{
      .ctx = call.ctx, .inputs = operands, .attrs = call.attrs, .outputs = call.outputs};
  kernel(plain);
}

std::vector<Var> prelu_gradient(GradContext& c) {
  const std::size_t ndim = c.input_shape(0).size();
  std::vector<int> dims;
  Shape others;
  for (std::size_t d = 0; d < ndim; ++d) {
    if (d == 1) continue;
    others.push_back(static_cast<std::int64_t>(d));
    if (d > 1) dims.push_back(static_cast<int>(d) - 1);
  }
  Var weight = c.input(1);
  for (const int dim : dims) weight = c.call("unsqueeze", {weight}, {{"dim", std::int64_t{dim}}});
  std::vector<Var> grads(2);
  const auto cotangent = [&](const char* slope) {
    return c.call("pointwise_grad_of_two", {c.cotangent(0), c.input(0), weight},
                  {{"function", slope}});
  };
  if (c.needs(0)) grads[0] = ops::grad_like(c, cotangent("prelu'0"), 0);
  if (c.needs(1)) {
    const Var summed = c.call("sum", {cotangent("prelu'1")}, {{"dim", others}, {"keepdim", false}});
    grads[1] = ops::grad_like(c, summed, 1);
  }
  return grads;
}

void add_prelu(OpTable& table) {
  table.must_add(
      {.name = "prelu",
       .doc = "x where positive, else x times the weight of its channel, dim 1.",
       .args = {in("self"), in("weight")},
       .rule = "nc*, c -> nc* | aff B",
       .kernel = run_prelu,
       .infer = infer_prelu,
       .gradient = prelu_gradient,
       .saved_inputs = {0, 1},
       .finite = {0},
       .samples = {
           {.shapes = {{8, 6}, {6}}}, {.shapes = {{5, 3}, {3}}}, {.shapes = {{6, 7, 6}, {7}}}}});
}

}  // namespace

void add_pointwise_activation_ops(OpTable& table) {
  add_gates(table);
  add_rectifiers(table);
  add_shrinks(table);
  add_prelu(table);
  ops::add_in_place_forms(
      table, {"relu6", "hardtanh", "leaky_relu", "hardsigmoid", "hardswish", "elu", "threshold"});
}

}  // namespace tessera
