// Arithmetic of two tensors that broadcast.
#include <cmath>

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;
using ops::grad_like;

template <Binary kOp>
void run_binary(KernelCall& call) {
  kernels::binary(call.ctx, kOp, call.inputs[0], call.inputs[1], call.outputs[0]);
}

std::vector<Sample> broadcasting_samples() {
  return {{.shapes = {{8, 6}, {8, 6}}},
          {.shapes = {{5, 3}, {3}}},
          {.shapes = {{8, 1, 4}, {5, 1}}},
          {.shapes = {{2, 8}, {}}}};
}

OpDef binary(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self"), in("other")},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = ops::infer_elementwise,
          .samples = broadcasting_samples()};
}

/// Plain addition and subtraction where alpha is 1.
template <Binary kOp>
Kernel with_alpha(const std::string& name) {
  return [scaled = ops::pointwise_kernel(name)](KernelCall& call) {
    if (call.attrs.get_double_or("alpha", 1.0) == 1.0) return run_binary<kOp>(call);
    scaled(call);
  };
}

/// The cotangent times `factor`, like operand 1.
Var other_cotangent(GradContext& c, double factor) {
  if (!c.needs(1)) return {};
  Var grad = c.cotangent(0);
  if (factor == -1.0) grad = c.call("neg", {grad});
  if (std::fabs(factor) != 1.0) grad = c.call("mul_scalar", {grad}, {{"value", factor}});
  return grad_like(c, grad, 1);
}

constexpr char kInfinitiesMeet[] =
    "P(max), R; P(min), R; R, P(max); R, P(min): where one operand is infinite, a rank that holds "
    "the opposite infinity of the other, as one without elements does, gives NaN";

void add_sums(OpTable& table) {
  OpDef add =
      binary("add", "self + alpha other.", "*, * -> * | lin A+B", with_alpha<Binary::kAdd>("add"));
  add.attrs = {ops::element_attr("alpha", 1.0)};
  add.declined = {kInfinitiesMeet};
  add.samples.push_back({.shapes = {{6, 7}, {6, 7}}, .attrs = {{"alpha", -0.5}}});
  add.samples.push_back({.shapes = {{7, 6}, {7, 6}},
                         .attrs = {{"alpha", 3.0}},
                         .dtypes = {DType::kI64, DType::kI64},
                         .below = {9, 9},
                         .differentiable = false});
  add.gradient = [](GradContext& c) -> std::vector<Var> {
    return {grad_like(c, c.cotangent(0), 0),
            other_cotangent(c, c.attrs().get_double_or("alpha", 1.0))};
  };
  table.must_add(std::move(add));

  OpDef sub =
      binary("sub", "self - alpha other.", "*, * -> * | lin A+B", with_alpha<Binary::kSub>("sub"));
  sub.attrs = {ops::element_attr("alpha", 1.0)};
  sub.infer = ops::infer_difference;
  sub.declined = {kInfinitiesMeet};
  sub.samples.push_back({.shapes = {{6, 7}, {6, 7}}, .attrs = {{"alpha", -0.5}}});
  sub.gradient = [](GradContext& c) -> std::vector<Var> {
    return {grad_like(c, c.cotangent(0), 0),
            other_cotangent(c, -c.attrs().get_double_or("alpha", 1.0))};
  };
  table.must_add(std::move(sub));
}

void add_products(OpTable& table) {
  OpDef mul = binary("mul", "Product element by element.", "*, * -> * | lin A*B | prod A*B",
                     run_binary<Binary::kMul>);
  mul.saved_inputs = {0, 1};
  mul.gradient = [](GradContext& c) -> std::vector<Var> {
    std::vector<Var> grads(2);
    if (c.needs(0)) grads[0] = grad_like(c, c.call("mul", {c.cotangent(0), c.input(1)}), 0);
    if (c.needs(1)) grads[1] = grad_like(c, c.call("mul", {c.cotangent(0), c.input(0)}), 1);
    return grads;
  };
  table.must_add(std::move(mul));

  OpDef div = binary("div", "Quotient element by element (true division).",
                     "*, * -> * | lin A | prod A*B", run_binary<Binary::kDiv>);
  div.infer = ops::infer_floating;
  div.finite = {1};
  div.declined = {
      "P(max), R -> P(max); P(min), R -> P(min); R, P(min) -> P(max): for positive operands only"};
  div.saved_inputs = {1};
  div.saved_outputs = {0};
  for (Sample& sample : div.samples) sample.positive = true;
  div.gradient = [](GradContext& c) -> std::vector<Var> {
    const Var quotient = c.call("div", {c.cotangent(0), c.input(1)});
    Var other;
    if (c.needs(1)) {
      other = grad_like(c, c.call("neg", {c.call("mul", {quotient, c.output(0)})}), 1);
    }
    return {grad_like(c, quotient, 0), other};
  };
  table.must_add(std::move(div));
}

void add_extremes(OpTable& table) {
  OpDef maximum =
      binary("maximum", "The larger element of two; NaN wins. Equal ones share a cotangent.",
             "*, * -> * | max A,B | mono AB", run_binary<Binary::kMaximum>);
  maximum.saved_inputs = {0, 1};
  maximum.gradient = ops::pointwise_gradient("maximum");
  table.must_add(std::move(maximum));
  OpDef minimum =
      binary("minimum", "The smaller element of two; NaN wins. Equal ones share a cotangent.",
             "*, * -> * | min A,B | mono AB", run_binary<Binary::kMinimum>);
  minimum.saved_inputs = {0, 1};
  minimum.gradient = ops::pointwise_gradient("minimum");
  table.must_add(std::move(minimum));
}

}  // namespace

void add_binary_ops(OpTable& table) {
  add_sums(table);
  add_products(table);
  add_extremes(table);
  ops::add_in_place_forms(table, {"sub", "mul", "div", "maximum", "minimum"});
}

}  // namespace tessera
