// Arithmetic of two tensors that broadcast.
#include <cmath>

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;
using ops::grad_like;
using ops::PointwiseDef;

OpDef binary(PointwiseDef def) {
  def.samples =
      ops::samples_of({{{8, 6}, {8, 6}}, {{5, 3}, {3}}, {{8, 1, 4}, {5, 1}}, {{2, 8}, {}}});
  return ops::pointwise_op(def);
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

/// Of the function with alpha; plain addition or subtraction where that is 1.
OpDef with_alpha(Binary plain, PointwiseDef def) {
  const double sign = plain == Binary::kAdd ? 1.0 : -1.0;
  def.rule = "*, * -> * | lin A+B";
  def.attrs = {ops::element_attr("alpha", 1.0)};
  def.gradient = [sign](GradContext& c) -> std::vector<Var> {
    return {grad_like(c, c.cotangent(0), 0),
            other_cotangent(c, sign * c.attrs().get_double_or("alpha", 1.0))};
  };
  def.declined = {kInfinitiesMeet};
  OpDef op = binary(def);
  op.kernel = [plain, scaled = op.kernel](KernelCall& call) {
    if (call.attrs.get_double_or("alpha", 1.0) != 1.0) return scaled(call);
    kernels::binary(call.ctx, plain, call.inputs[0], call.inputs[1], call.outputs[0]);
  };
  op.samples.push_back({.shapes = {{6, 7}, {6, 7}}, .attrs = {{"alpha", -0.5}}});
  return op;
}

void add_sums(OpTable& table) {
  OpDef add = with_alpha(
      Binary::kAdd, {.name = "add", .doc = "self + alpha other.", .infer = ops::infer_elementwise});
  add.samples.push_back({.shapes = {{7, 6}, {7, 6}},
                         .attrs = {{"alpha", 3.0}},
                         .dtypes = {DType::kI64, DType::kI64},
                         .below = {9, 9},
                         .differentiable = false});
  table.must_add(std::move(add));
  table.must_add(with_alpha(
      Binary::kSub, {.name = "sub", .doc = "self - alpha other.", .infer = ops::infer_difference}));
}

std::vector<Var> quotient_gradient(GradContext& c) {
  const Var quotient = c.call("div", {c.cotangent(0), c.input(1)});
  Var other;
  if (c.needs(1)) {
    other = grad_like(c, c.call("neg", {c.call("mul", {quotient, c.output(0)})}), 1);
  }
  return {grad_like(c, quotient, 0), other};
}

void add_products(OpTable& table) {
  table.must_add(
      binary({.name = "mul",
              .doc = "Product element by element.",
              .rule = "*, * -> * | lin A*B | prod A*B",
              .infer = ops::infer_elementwise,
              .gradient =
                  [](GradContext& c) {
                    std::vector<Var> grads(2);
                    for (const int i : {0, 1}) {
                      if (!c.needs(i)) continue;
                      const Var product = c.call("mul", {c.cotangent(0), c.input(1 - i)});
                      grads[static_cast<std::size_t>(i)] = grad_like(c, product, i);
                    }
                    return grads;
                  },
              .saved_inputs = {0, 1}}));
  OpDef div = binary({.name = "div",
                      .doc = "Quotient element by element (true division).",
                      .rule = "*, * -> * | lin A | prod A*B",
                      .gradient = quotient_gradient,
                      .saved_inputs = {1},
                      .saved_outputs = {0},
                      .finite = {1},
                      .declined = {"P(max), R -> P(max); P(min), R -> P(min); R, P(min) -> P(max): "
                                   "for positive operands only"}});
  for (Sample& sample : div.samples) sample.positive = true;
  table.must_add(std::move(div));
}

void add_extremes(OpTable& table) {
  table.must_add(
      binary({.name = "maximum",
              .doc = "The larger element of two; NaN wins. Equal ones share a cotangent.",
              .rule = "*, * -> * | max A,B | mono AB",
              .infer = ops::infer_elementwise}));
  table.must_add(
      binary({.name = "minimum",
              .doc = "The smaller element of two; NaN wins. Equal ones share a cotangent.",
              .rule = "*, * -> * | min A,B | mono AB",
              .infer = ops::infer_elementwise}));
}

}  // namespace

void add_binary_ops(OpTable& table) {
  add_sums(table);
  add_products(table);
  add_extremes(table);
  ops::add_in_place_forms(table, {"sub", "mul", "div", "maximum", "minimum"});
}

}  // namespace tessera
