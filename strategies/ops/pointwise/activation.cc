// Activations and their gradients as ops of their own, so that gradients shard by the same rules.
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;
using kernels::Unary;

std::vector<Sample> one_operand() {
  return {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}, {.shapes = {{1, 8, 2}}}};
}
std::vector<Sample> operands(int count) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{8, 6}, Shape{5, 3}, Shape{2, 8}}) {
    samples.push_back({.shapes = std::vector<Shape>(static_cast<std::size_t>(count), shape)});
  }
  return samples;
}

/// What an activation's gradient op reads beside the cotangent.
enum class Saved : std::uint8_t { kInput, kOutput };

struct Activation {
  std::string name;
  std::string doc;
  std::string rule;
  Saved saved = Saved::kInput;
  std::string grad_rule = "*, * -> * | lin A";
  std::vector<std::string> grad_declined = {};
  std::vector<int> grad_finite = {};  ///< OpDef::finite
};

template <Unary kForward, Binary kGrad>
void add_activation(OpTable& table, const Activation& activation) {
  const std::string grad_name = activation.name + "_grad";
  OpDef def = {.name = activation.name,
               .doc = activation.doc,
               .args = {in("self")},
               .rule = activation.rule,
               .kernel =
                   [](KernelCall& call) {
                     kernels::unary(call.ctx, kForward, call.inputs[0], call.outputs[0]);
                   },
               .infer = ops::infer_floating,
               .samples = one_operand()};
  const Saved saved = activation.saved;
  (saved == Saved::kInput ? def.saved_inputs : def.saved_outputs) = {0};
  def.gradient = [grad_name, saved](GradContext& c) -> std::vector<Var> {
    const Var value = saved == Saved::kInput ? c.input(0) : c.output(0);
    return {c.call(grad_name, {c.cotangent(0), value})};
  };
  table.must_add(std::move(def));
  table.must_add({.name = grad_name,
                  .doc = "Cotangent of " + activation.name + "'s operand.",
                  .args = {in("grad"), in(saved == Saved::kInput ? "self" : "result")},
                  .rule = activation.grad_rule,
                  .kernel =
                      [](KernelCall& call) {
                        kernels::binary(call.ctx, kGrad, call.inputs[0], call.inputs[1],
                                        call.outputs[0]);
                      },
                  .infer = ops::infer_floating,
                  .finite = activation.grad_finite,
                  .declined = activation.grad_declined,
                  .samples = operands(2)});
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
  add_activation<Unary::kRelu, Binary::kReluGrad>(
      table, {"relu",
              "The element where positive, else 0.",
              "* -> * | mono A",
              Saved::kOutput,
              "*, * -> * | lin A | mono A | prod A",
              {"P(prod), P(min): the saved result is read whole"}});
  add_activation<Unary::kSigmoid, Binary::kSigmoidGrad>(table, {.name = "sigmoid",
                                                                .doc = "1 / (1 + exp(-x)).",
                                                                .rule = "* -> * | mono A",
                                                                .saved = Saved::kOutput,
                                                                .grad_finite = {1}});
  add_activation<Unary::kTanh, Binary::kTanhGrad>(table, {.name = "tanh",
                                                          .doc = "Hyperbolic tangent.",
                                                          .rule = "* -> * | mono A",
                                                          .saved = Saved::kOutput,
                                                          .grad_finite = {1}});
  add_activation<Unary::kSilu, Binary::kSiluGrad>(
      table,
      {"silu", "x times sigmoid(x); falls below x = -1.28, so no Partial passes.", "* -> *"});
  add_gelu(table);
  add_swiglu(table);
  ops::add_in_place_forms(table, {"relu", "sigmoid", "tanh", "silu", "gelu"});
}

}  // namespace tessera
