// Comparisons and logic: BOOL results, no gradient, no Partial (BOOL has none).
#include <cmath>
#include <optional>

#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

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

template <Binary kOp>
void run_with_number(KernelCall& call) {
  double value = call.attrs.get_double("value");
  if (!is_floating(call.inputs[0].dtype())) {
    const WholeNumber whole = whole_number(kOp, value);
    if (whole.answer) return kernels::fill(call.ctx, *whole.answer ? 1.0 : 0.0, call.outputs[0]);
    value = whole.value;
  }
  kernels::binary_scalar(call.ctx, kOp, call.inputs[0], value, call.outputs[0]);
}

template <Binary kOp>
void add_comparison(OpTable& table, const std::string& name, const std::string& relation) {
  std::vector<std::string> declined, declined_scalar;
  if (kOp != Binary::kEq && kOp != Binary::kNe) {
    const std::string reason = ": a NaN on one rank compares false, and would not win";
    declined = {"P(max), R; P(min), R; R, P(max); R, P(min)" + reason};
    declined_scalar = {"P(max); P(min)" + reason};
  }
  table.must_add({.name = name,
                  .doc = "True where self " + relation + " other.",
                  .args = {in("self"), in("other")},
                  .rule = "*, * -> *",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::binary(call.ctx, kOp, call.inputs[0], call.inputs[1],
                                        call.outputs[0]);
                      },
                  .infer = ops::infer_predicate,
                  .declined = declined,
                  .samples = {{.shapes = {{8, 6}, {8, 6}}, .differentiable = false},
                              {.shapes = {{5, 3}, {3}}, .adjust = tie, .differentiable = false},
                              {.shapes = {{8, 6}, {8, 1}},
                               .dtypes = {DType::kI64, DType::kI64},
                               .below = {3, 3},
                               .differentiable = false}}});
  table.must_add(
      {.name = name + "_scalar",
       .doc = "True where self " + relation + " `value`.",
       .args = {in("self")},
       .attrs = {ops::double_attr("value")},
       .rule = "* -> *",
       .kernel = run_with_number<kOp>,
       .infer = ops::infer_predicate,
       .declined = declined_scalar,
       .samples = {
           {.shapes = {{8, 6}}, .attrs = {{"value", 0.25}}, .adjust = tie, .differentiable = false},
           {.shapes = {{5, 3}},
            .attrs = {{"value", 1.0}},
            .dtypes = {DType::kI64},
            .below = {3},
            .differentiable = false}}});
}

template <Binary kOp>
void add_logic(OpTable& table, const std::string& name, const std::string& doc) {
  const std::vector<DType> bools = {DType::kBool, DType::kBool};
  table.must_add(
      {.name = name,
       .doc = doc,
       .args = {in("self"), in("other")},
       .rule = "*, * -> *",
       .kernel =
           [](KernelCall& call) {
             kernels::binary(call.ctx, kOp, call.inputs[0], call.inputs[1], call.outputs[0]);
           },
       .infer = ops::infer_predicate,
       .declined = {"P(max), _; P(min), _; R, P(max); R, P(min): monotone for BOOL only, and the "
                    "notation has no guard on dtypes"},
       .samples = {{.shapes = {{8, 6}, {8, 6}}, .dtypes = bools, .differentiable = false},
                   {.shapes = {{5, 3}, {3}}, .dtypes = bools, .differentiable = false}}});
}

}  // namespace

void add_compare_ops(OpTable& table) {
  add_comparison<Binary::kEq>(table, "eq", "equals");
  add_comparison<Binary::kNe>(table, "ne", "differs from");
  add_comparison<Binary::kLt>(table, "lt", "is below");
  add_comparison<Binary::kLe>(table, "le", "is not above");
  add_comparison<Binary::kGt>(table, "gt", "is above");
  add_comparison<Binary::kGe>(table, "ge", "is not below");
  add_logic<Binary::kLogicalAnd>(table, "logical_and", "True where both are.");
  add_logic<Binary::kLogicalOr>(table, "logical_or", "True where one is.");
}

}  // namespace tessera
