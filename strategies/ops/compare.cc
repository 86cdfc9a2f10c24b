// Comparisons and logic: BOOL results, no gradient, no Partial (BOOL has none).
#include <cmath>

#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Binary;

/// Values that meet those of the other operand, and 0.25.
void tie(int /*operand*/, const Shape& /*shape*/, std::vector<double>& values) {
  for (double& value : values) value = std::round(value * 4.0) / 4.0;
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
       .kernel =
           [](KernelCall& call) {
             kernels::binary_scalar(call.ctx, kOp, call.inputs[0], call.attrs.get_double("value"),
                                    call.outputs[0]);
           },
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
