// Cotangents of pointwise functions: the slope is found by name, so that one op serves them all.
#include "kernels/pointwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::double_attr;

StatusOr<std::vector<TensorMeta>> infer_grad(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  const std::string name = attrs.get_string("function");
  const bool is_slope = name.find('\'') != std::string::npos;
  if (!is_slope || !kernels::has_pointwise_function(name) ||
      kernels::pointwise_function(name).num_operands != static_cast<int>(inputs.size())) {
    return invalid_argument("function \"" + name + "\" is no slope of " +
                            std::to_string(inputs.size() - 1) +
                            " operands; one is named like tan'0, by op and operand");
  }
  return ops::infer_floating(inputs, attrs);
}

void run_grad(KernelCall& call) {
  const double params[] = {call.attrs.get_double("a"), call.attrs.get_double("b"),
                           call.attrs.get_double("c")};
  kernels::pointwise(call.ctx, kernels::pointwise_function(call.attrs.get_string("function")),
                     call.inputs, params, call.outputs[0]);
}

OpDef grad_op(std::string name, std::vector<ArgDef> args, std::string rule) {
  return {.name = std::move(name),
          .doc =
              "Cotangent times the slope that `function` names (tan'0: of tan by operand 0) with "
              "its numbers a, b, c.",
          .args = std::move(args),
          .attrs = {{"function", AttrDef::Type::kString, {}},
                    double_attr("a", 0.0),
                    double_attr("b", 0.0),
                    double_attr("c", 0.0)},
          .rule = std::move(rule),
          .kernel = run_grad,
          .infer = infer_grad};
}

Sample sample(std::vector<Shape> shapes, std::string function, double a) {
  return {.shapes = std::move(shapes),
          .attrs = {{"function", std::move(function)}, {"a", a}},
          .differentiable = false};
}

}  // namespace

void add_pointwise_grad_ops(OpTable& table) {
  OpDef one = grad_op("pointwise_grad", {in("grad"), in("self")}, "*, * -> * | lin A");
  one.finite = {1};
  one.samples = {sample({{8, 6}, {8, 6}}, "leaky_relu'0", -0.5),
                 sample({{5, 3}, {5, 3}}, "tan'0", 0.0), sample({{7, 6}, {7, 6}}, "cosh'0", 0.0)};
  table.must_add(std::move(one));
  OpDef two = grad_op("pointwise_grad_of_two", {in("grad"), in("self"), in("other")},
                      "*, *, * -> * | lin A");
  two.samples = {sample({{8, 6}, {8, 6}, {8, 6}}, "hypot'1", 0.0),
                 sample({{5, 3}, {5, 3}, {3}}, "hypot'1", 0.0),
                 sample({{6, 7}, {6, 7}, {6, 7}}, "atan2'1", 0.0)};
  table.must_add(std::move(two));
  OpDef three =
      grad_op("pointwise_grad_of_three", {in("grad"), in("self"), in("other"), in("third")},
              "*, *, *, * -> * | lin A");
  three.declined = {
      "P(max), R, R, R -> P(max); P(min), R, R, R -> P(min): only where the slope that `function` "
      "names is nowhere negative"};
  three.samples = {sample({{8, 6}, {8, 6}, {8, 6}, {8, 6}}, "clamp_tensor'0", 0.0),
                   sample({{5, 3}, {5, 3}, {3}, {5, 1}}, "clamp_tensor'1", 0.0),
                   sample({{6, 7}, {6, 7}, {6, 7}, {7}}, "clamp_tensor'2", 0.0)};
  table.must_add(std::move(three));
}

}  // namespace tessera
