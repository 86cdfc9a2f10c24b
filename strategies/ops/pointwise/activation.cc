// Activations and their gradients as ops of their own, so that gradients shard by the same rules.
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;
using kernels::Unary;
using ops::PointwiseDef;

std::vector<Sample> one_operand() { return ops::samples_of({{{8, 6}}, {{5, 3}}, {{1, 8, 2}}}); }
std::vector<Sample> operands(std::size_t count) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{8, 6}, Shape{5, 3}, Shape{2, 8}}) {
    samples.push_back({.shapes = std::vector<Shape>(count, shape)});
  }
  return samples;
}

/// What an activation's gradient op reads beside the cotangent.
enum class Saved : std::uint8_t { kInput, kOutput };

void add_activation(OpTable& table, Saved saved, PointwiseDef forward, PointwiseDef grad) {
  const bool is_input = saved == Saved::kInput;
  grad.name = forward.name + "_grad";
  grad.doc = "Cotangent of " + forward.name + "'s operand.";
  grad.args = {in("grad"), in(is_input ? "self" : "result")};
  grad.samples = operands(2);
  forward.gradient = [is_input, name = grad.name](GradContext& c) -> std::vector<Var> {
    return {c.call(name, {c.cotangent(0), is_input ? c.input(0) : c.output(0)})};
  };
  (is_input ? forward.saved_inputs : forward.saved_outputs) = {0};
  forward.samples = one_operand();
  ops::add_pointwise(table, {forward, grad});
}

bool is_tanh_form(const Attrs& attrs) { return attrs.get_string("approximate") == "tanh"; }

StatusOr<std::vector<TensorMeta>> infer_gelu(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  const std::string form = attrs.get_string("approximate");
  if (form != "none" && form != "tanh") {
    return invalid_argument("approximate is '" + form + "', but must be none or tanh");
  }
  return ops::infer_floating(inputs, attrs);
}

void run_gelu(KernelCall& call) {
  if (is_tanh_form(call.attrs)) {
    kernels::unary(call.ctx, Unary::kGelu, call.inputs[0], call.outputs[0]);
  } else {
    kernels::pointwise(call.ctx, kernels::pointwise_function("gelu"), call.inputs, {},
                       call.outputs[0]);
  }
}

void run_gelu_grad(KernelCall& call) {
  if (is_tanh_form(call.attrs)) {
    kernels::binary(call.ctx, Binary::kGeluGrad, call.inputs[0], call.inputs[1], call.outputs[0]);
  } else {
    kernels::pointwise(call.ctx, kernels::pointwise_function("gelu'0"), call.inputs, {},
                       call.outputs[0]);
  }
}

/// Each sample in both forms.
std::vector<Sample> in_both_forms(std::vector<Sample> samples) {
  const std::size_t count = samples.size();
  for (std::size_t i = 0; i < count; ++i) {
    samples.push_back(samples[i]);
    samples.back().attrs = {{"approximate", std::string("tanh")}};
  }
  return samples;
}

void add_gelu(OpTable& table) {
  const AttrDef approximate = {"approximate", AttrDef::Type::kString,
                               AttrValue{std::string("none")}};
  table.must_add(
      {.name = "gelu",
       .doc = "x times the normal distribution's integral up to x, or its tanh form.",
       .args = {in("self")},
       .attrs = {approximate},
       .rule = "* -> *",
       .kernel = run_gelu,
       .infer = infer_gelu,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const std::string form = c.attrs().get_string("approximate");
         return {c.call("gelu_grad", {c.cotangent(0), c.input(0)}, {{"approximate", form}})};
       },
       .saved_inputs = {0},
       .samples = in_both_forms(one_operand())});
  table.must_add({.name = "gelu_grad",
                  .doc = "Cotangent of gelu's operand.",
                  .args = {in("grad"), in("self")},
                  .attrs = {approximate},
                  .rule = "*, * -> * | lin A",
                  .kernel = run_gelu_grad,
                  .infer = infer_gelu,
                  .samples = in_both_forms(operands(2))});
}

void add_swiglu(OpTable& table) {
  table.must_add({.name = "swiglu",
                  .doc = "silu(gate) times up in one pass.",
                  .args = {in("gate").floating(), in("up").like(0)},
                  .rule = "*, * -> * | lin B",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::swiglu(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
                      },
                  .infer = ops::infer_floating,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    const Var operands[] = {c.cotangent(0), c.input(0), c.input(1)};
                    return c.call_all("swiglu_grad", operands, {});
                  },
                  .saved_inputs = {0, 1},
                  .finite = {0},
                  .samples = operands(2)});
  table.must_add({.name = "swiglu_grad",
                  .doc = "Cotangents of swiglu's gate and up.",
                  .args = {in("grad").floating().with_shape_of(1), in("gate").floating(),
                           in("up").floating().with_shape_of(1)},
                  .rule = "*, *, * -> *, * | lin A | lin[0] C",
                  .num_outputs = 2,
                  .kernel =
                      [](KernelCall& call) {
                        kernels::swiglu_grad(call.ctx, call.inputs[0], call.inputs[1],
                                             call.inputs[2], call.outputs[0], call.outputs[1]);
                      },
                  .infer = ops::like_operands({1, 2}),
                  .finite = {0, 1, 2},
                  .samples = operands(3)});
}

}  // namespace

void add_activation_ops(OpTable& table) {
  const std::string linear = "*, * -> * | lin A", increasing = "* -> * | mono A";
  add_activation(table, Saved::kOutput,
                 {.name = "relu", .doc = "The element where positive, else 0.", .rule = increasing},
                 {.rule = linear + " | mono A | prod A",
                  .declined = {"P(prod), P(min): the saved result is read whole"}});
  add_activation(table, Saved::kOutput,
                 {.name = "sigmoid", .doc = "1 / (1 + exp(-x)).", .rule = increasing},
                 {.rule = linear, .finite = {1}});
  add_activation(table, Saved::kOutput,
                 {.name = "tanh", .doc = "Hyperbolic tangent.", .rule = increasing},
                 {.rule = linear, .finite = {1}});
  add_activation(table, Saved::kInput,
                 {.name = "silu",
                  .doc = "x times sigmoid(x); falls below x = -1.28, so no Partial passes.",
                  .rule = "* -> *"},
                 {.rule = linear});
  add_gelu(table);
  add_swiglu(table);
  ops::add_in_place_forms(table, {"relu", "sigmoid", "tanh", "silu", "gelu"});
}

}  // namespace tessera
