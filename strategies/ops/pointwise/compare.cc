// Comparisons and logic: BOOL results, no gradient, no Partial (BOOL has none).
#include <cmath>
#include <optional>

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;

/// Values that meet those of the other operand, and 0.25.
void tie(int /*operand*/, const Shape& /*shape*/, std::vector<double>& values) {
  for (double& value : values) value = std::round(value * 4.0) / 4.0;
}

/// What integers are compared with instead of a number: the whole number on its near side, or
/// nothing, where the answer is one for all of them. Comparisons are exact: no integer is rounded.
struct WholeNumber {
  double value = 0.0;
  std::optional<bool> answer = {};
};
WholeNumber whole_number(Binary op, double value) {
  constexpr double kLimit = 0x1p63;
  const bool less = op == Binary::kLt || op == Binary::kLe;
  const bool equal = op == Binary::kEq;
  const bool unequal = op == Binary::kNe;
  if (std::isnan(value)) return {.answer = unequal};
  if (value >= kLimit) return {.answer = less || unequal};
  if (value < -kLimit) return {.answer = !less && !equal};
  if (value == std::floor(value)) return {.value = value};
  if (equal || unequal) return {.answer = unequal};
  const bool up = op == Binary::kLt || op == Binary::kGe;
  return {.value = up ? std::ceil(value) : std::floor(value)};
}

Kernel compare_with_number(Binary op) {
  return [op](KernelCall& call) {
    double value = call.attrs.get_double("value");
    if (!is_floating(call.inputs[0].dtype())) {
      const WholeNumber whole = whole_number(op, value);
      if (whole.answer) return kernels::fill(call.ctx, *whole.answer ? 1.0 : 0.0, call.outputs[0]);
      value = whole.value;
    }
    kernels::binary_scalar(call.ctx, op, call.inputs[0], value, call.outputs[0]);
  };
}

void add_comparison(OpTable& table, Binary op, const std::string& name,
                    const std::string& relation) {
  std::vector<std::string> declined, declined_scalar;
  if (op != Binary::kEq && op != Binary::kNe) {
    const std::string reason = ": a NaN on one rank compares false, and would not win";
    declined = {"P(max), R; P(min), R; R, P(max); R, P(min)" + reason};
    declined_scalar = {"P(max); P(min)" + reason};
  }
  OpDef with_number = ops::pointwise_op(
      {.name = name + "_scalar",
       .doc = "True where self " + relation + " `value`.",
       .rule = "* -> *",
       .attrs = {ops::double_attr("value")},
       .infer = ops::infer_predicate,
       .declined = declined_scalar,
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"value", 0.25}}, .adjust = tie},
                   {.shapes = {{5, 3}},
                    .attrs = {{"value", 1.0}},
                    .dtypes = {DType::kI64},
                    .below = {3}}}});
  with_number.kernel = compare_with_number(op);
  table.must_add(ops::pointwise_op(
      {.name = name,
       .doc = "True where self " + relation + " other.",
       .rule = "*, * -> *",
       .infer = ops::infer_predicate,
       .declined = declined,
       .samples = {
           {.shapes = {{8, 6}, {8, 6}}},
           {.shapes = {{5, 3}, {3}}, .adjust = tie},
           {.shapes = {{8, 6}, {8, 1}}, .dtypes = {DType::kI64, DType::kI64}, .below = {3, 3}}}}));
  table.must_add(std::move(with_number));
}

void add_logic(OpTable& table, const std::string& name, const std::string& doc) {
  const std::vector<DType> bools = {DType::kBool, DType::kBool};
  table.must_add(ops::pointwise_op(
      {.name = name,
       .doc = doc,
       .rule = "*, * -> *",
       .infer = ops::infer_predicate,
       .declined = {"P(max), _; P(min), _; R, P(max); R, P(min): monotone for BOOL only, and the "
                    "notation has no guard on dtypes"},
       .samples = {{.shapes = {{8, 6}, {8, 6}}, .dtypes = bools},
                   {.shapes = {{5, 3}, {3}}, .dtypes = bools}}}));
}

}  // namespace

void add_compare_ops(OpTable& table) {
  add_comparison(table, Binary::kEq, "eq", "equals");
  add_comparison(table, Binary::kNe, "ne", "differs from");
  add_comparison(table, Binary::kLt, "lt", "is below");
  add_comparison(table, Binary::kLe, "le", "is not above");
  add_comparison(table, Binary::kGt, "gt", "is above");
  add_comparison(table, Binary::kGe, "ge", "is not below");
  add_logic(table, "logical_and", "True where both are.");
  add_logic(table, "logical_or", "True where one is.");
}

}  // namespace tessera
