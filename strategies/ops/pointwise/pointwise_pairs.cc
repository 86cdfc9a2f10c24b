// Functions of two tensors that broadcast.
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/pointwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::double_attr;
using ops::PointwiseDef;

const char kPlain[] = "*, * -> *";

/// Divisors and arguments of steep functions: none near 0.
void keep_from_zero(std::vector<double>& values) {
  for (double& value : values) value += std::copysign(0.4, value);
}
void adjust_operand(OpDef& op, int operand, std::function<void(std::vector<double>&)> change) {
  for (Sample& sample : op.samples) {
    sample.adjust = [operand, change](int each, const Shape&, std::vector<double>& values) {
      if (each == operand) change(values);
    };
  }
}
/// Operands that tie in places.
void adjust_to_ties(OpDef& op) {
  for (Sample& sample : op.samples) {
    sample.adjust = [](int, const Shape&, std::vector<double>& values) {
      for (double& value : values) value = std::round(value);
    };
  }
}

void add_angles(OpTable& table) {
  OpDef atan2 =
      ops::pointwise_op({.name = "atan2",
                         .doc = "Angle of (other, self), in radians; without slope at (0, 0).",
                         .rule = kPlain});
  adjust_operand(atan2, 1, keep_from_zero);
  table.must_add(std::move(atan2));
  OpDef hypot = ops::pointwise_op(
      {.name = "hypot", .doc = "sqrt(self^2 + other^2) without overflow.", .rule = kPlain});
  adjust_operand(hypot, 0, keep_from_zero);
  table.must_add(std::move(hypot));
  table.must_add(ops::pointwise_op({.name = "copysign",
                                    .doc = "self's magnitude with other's sign.",
                                    .rule = kPlain,
                                    .declined = {"P(prod), P(prod); R, P(max); R, P(min): a NaN "
                                                 "wins over the ranks whatever its sign"}}));
}

void add_exponentials(OpTable& table) {
  OpDef ldexp = ops::pointwise_op(
      {.name = "ldexp",
       .doc = "self times 2 to the power of other.",
       .rule = kPlain,
       .declined = {
           "P(prod), P(sum) -> P(prod): no notation for a sum that becomes a product",
           "P(sum), R; P(avg), R; P(max), R; P(min), R: 2 to the power of other is infinite from "
           "1024 on, where a rank that holds 0 gives NaN"}});
  table.must_add(std::move(ldexp));
  table.must_add(ops::pointwise_op({.name = "logaddexp",
                                    .doc = "log(exp(self) + exp(other)) without overflow.",
                                    .rule = "*, * -> * | mono AB"}));
  table.must_add(ops::pointwise_op({.name = "logaddexp2",
                                    .doc = "log2(2^self + 2^other) without overflow.",
                                    .rule = "*, * -> * | mono AB"}));
  OpDef xlogy = ops::pointwise_op(
      {.name = "xlogy",
       .doc = "self log(other); 0 where self is 0, unless other is NaN.",
       .rule = kPlain,
       .declined = {"P(sum), R; P(avg), R: where other is 0, summands of 0 are infinite"}});
  adjust_operand(xlogy, 1, [](std::vector<double>& values) { ops::move_to({0.3, 2.5}, values); });
  table.must_add(std::move(xlogy));
}

StatusOr<std::vector<TensorMeta>> infer_f64(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_elementwise(inputs, attrs));
  out[0].dtype = DType::kF64;
  return out;
}

void add_powers(OpTable& table) {
  const auto power = [&](std::string name, std::string doc, Infer infer) {
    OpDef op = ops::pointwise_op({.name = std::move(name),
                                  .doc = std::move(doc),
                                  .rule = kPlain,
                                  .infer = std::move(infer),
                                  .declined = {"R, P(sum) -> P(prod): no notation for a sum that "
                                               "becomes a product"}});
    adjust_operand(op, 0, [](std::vector<double>& values) { ops::move_to({0.3, 2.5}, values); });
    table.must_add(std::move(op));
  };
  power("pow_tensor", "self to the power of other; integers wrap, negative powers of them are 0.",
        ops::infer_elementwise);
  power("float_power", "self to the power of other, in F64 whatever the operands are.", infer_f64);
}

/// Positive and negative integers, and divisors of which none is 0.
Sample divided_integers() {
  return {.shapes = {{6, 7}, {6, 7}},
          .dtypes = {DType::kI64, DType::kI64},
          .below = {9, 9},
          .adjust =
              [](int operand, const Shape&, std::vector<double>& values) {
                for (double& value : values) {
                  const double divisor = std::fmod(value, 2.0) == 0.0 ? value + 1.0 : -value - 1.0;
                  value = operand == 1 ? divisor : value - 4.0;
                }
              },
          .differentiable = false};
}

void add_divisions(OpTable& table) {
  const auto division = [](PointwiseDef def) {
    def.rule = kPlain;
    def.infer = ops::infer_elementwise;
    OpDef op = ops::pointwise_op(def);
    adjust_operand(op, 1, keep_from_zero);
    if (op.name != "fmod") op.samples.push_back(divided_integers());
    return op;
  };
  table.must_add(
      division({.name = "fmod",
                .doc = "Remainder of the sign of self. Source: C. Integers have none by 0."}));
  table.must_add(division(
      {.name = "remainder",
       .doc = "Remainder of the sign of other. Source: Python. Integers have none by 0."}));
  table.must_add(division(
      {.name = "floor_divide",
       .doc = "Quotient rounded towards -inf; 0 or -1 by an infinity. Integers have none by 0.",
       .gradient = ops::zero_gradient}));
}

void add_extremes(OpTable& table) {
  const std::string reason =
      "P(max), _; _, P(max); P(min), _; _, P(min): a NaN on one rank is passed over by the op, but "
      "wins over the ranks";
  table.must_add(
      ops::pointwise_op({.name = "fmax",
                         .doc = "The larger of two; a NaN loses to a number. Equal ones share a "
                                "cotangent.",
                         .rule = kPlain,
                         .infer = ops::infer_elementwise,
                         .declined = {reason}}));
  table.must_add(
      ops::pointwise_op({.name = "fmin",
                         .doc = "The smaller of two; a NaN loses to a number. Equal ones share a "
                                "cotangent.",
                         .rule = kPlain,
                         .infer = ops::infer_elementwise,
                         .declined = {reason}}));
  table.must_add(
      {.name = "nextafter",
       .doc = "The number next to self in the direction of other, both taken as numbers of the "
              "result's dtype.",
       .args = {in("self"), in("other")},
       .rule = "*, * -> * | mono AB",
       .kernel =
           [](KernelCall& call) {
             kernels::nextafter(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
           },
       .infer = ops::infer_floating,
       .declined = {"P(sum), _; P(avg), _; P(prod), _: a step is the last place of each summand, "
                    "which no comparison with a tolerance tells from none"},
       .samples = {{.shapes = {{8, 6}, {8, 6}}, .differentiable = false},
                   {.shapes = {{5, 3}, {3}}, .differentiable = false}}});
}

void add_steps(OpTable& table) {
  OpDef heaviside = ops::pointwise_op({.name = "heaviside",
                                       .doc = "0 below 0, 1 above it, and other at 0.",
                                       .rule = "*, * -> * | aff B | mono B | prod B",
                                       .infer = ops::infer_elementwise});
  for (Sample& sample : heaviside.samples) {
    sample.adjust = [](int operand, const Shape&, std::vector<double>& values) {
      for (std::size_t i = 0; i < values.size() && operand == 0; i += 2) values[i] = 0.0;
    };
  }
  table.must_add(std::move(heaviside));

  OpDef isclose = ops::pointwise_op(
      {.name = "isclose",
       .doc = "True where |self - other| is at most atol + |rtol other|; NaN only where equal_nan.",
       .rule = kPlain,
       .attrs = {double_attr("rtol", 1e-5), double_attr("atol", 1e-8),
                 ops::bool_attr("equal_nan", false)},
       .attr_samples = {{}, {{"rtol", 0.1}, {"atol", 0.5}}, {}},
       .infer = ops::infer_predicate});
  adjust_to_ties(isclose);
  table.must_add(std::move(isclose));

  OpDef logical_xor = ops::pointwise_op({.name = "logical_xor",
                                         .doc = "True where one of the two is, not both.",
                                         .rule = kPlain,
                                         .infer = ops::infer_predicate});
  for (Sample& sample : logical_xor.samples) sample.dtypes = {DType::kBool, DType::kBool};
  table.must_add(std::move(logical_xor));
}

void add_rsub(OpTable& table) {
  ops::add_pointwise(
      table,
      {{.name = "rsub",
        .doc = "other - alpha self.",
        .rule = "*, * -> * | lin A+B",
        .attrs = {ops::element_attr("alpha", 1.0)},
        .attr_samples = {{}, {{"alpha", -2.0}}, {{"alpha", 0.5}}},
        .infer = ops::infer_difference,
        .gradient = [](GradContext& c) -> std::vector<Var> {
          const Attrs factor = {{"value", -c.attrs().get_double("alpha")}};
          return {ops::grad_like(c, c.call("mul_scalar", {c.cotangent(0)}, factor), 0),
                  ops::grad_like(c, c.cotangent(0), 1)};
        },
        .declined = {"P(max), R; P(min), R; R, P(max); R, P(min): where one operand is infinite, a "
                     "rank that holds the same infinity of the other, as one without elements may, "
                     "gives NaN"}}});
}

}  // namespace

void add_pointwise_pairs_ops(OpTable& table) {
  add_angles(table);
  add_exponentials(table);
  add_powers(table);
  add_divisions(table);
  add_extremes(table);
  add_steps(table);
  add_rsub(table);
  ops::add_in_place_forms(table, {"copysign", "pow_tensor", "fmod", "remainder", "floor_divide"});
}

}  // namespace tessera
