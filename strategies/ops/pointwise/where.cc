// Choice between values by a BOOL tensor.
#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::grad_like;

StatusOr<std::vector<TensorMeta>> infer_where(std::span<const TensorMeta> inputs,
                                              const Attrs& attrs) {
  if (inputs[0].dtype != DType::kBool) {
    return invalid_argument("condition is " + std::string(name_of(inputs[0].dtype)) +
                            ", but must be BOOL");
  }
  return ops::infer_elementwise(inputs, attrs);
}

StatusOr<std::vector<TensorMeta>> infer_masked_fill(std::span<const TensorMeta> inputs,
                                                    const Attrs& attrs) {
  if (inputs[1].dtype != DType::kBool) {
    return invalid_argument("mask is " + std::string(name_of(inputs[1].dtype)) +
                            ", but must be BOOL");
  }
  return ops::infer_elementwise(inputs, attrs);
}

void add_where(OpTable& table) {
  table.must_add(
      {.name = "where",
       .doc = "self where condition, else other.",
       .args = {in("condition"), in("self"), in("other")},
       .rule = "*, *, * -> * | lin B+C | mono BC | max B,C | min B,C | prod B*C",
       .kernel =
           [](KernelCall& call) {
             kernels::where(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                            call.outputs[0]);
           },
       .infer = infer_where,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Attrs zero = {{"value", 0.0}};
         const Var others = c.call("logical_not", {c.input(0)});
         return {Var{}, grad_like(c, c.call("masked_fill", {c.cotangent(0), others}, zero), 1),
                 grad_like(c, c.call("masked_fill", {c.cotangent(0), c.input(0)}, zero), 2)};
       },
       .saved_inputs = {0},
       .samples = {{.shapes = {{8, 6}, {8, 6}, {8, 6}},
                    .dtypes = {DType::kBool, DType::kF64, DType::kF64}},
                   {.shapes = {{5, 1}, {5, 3}, {3}},
                    .dtypes = {DType::kBool, DType::kF64, DType::kF64}},
                   {.shapes = {{2, 8}, {8}, {}},
                    .dtypes = {DType::kBool, DType::kF64, DType::kF64}}}});
}

void add_masked_fill(OpTable& table) {
  const std::vector<DType> dtypes = {DType::kF64, DType::kBool};
  table.must_add(
      {.name = "masked_fill",
       .doc = "`value` where mask is true, else self.",
       .args = {in("self"), in("mask")},
       .attrs = {ops::element_attr("value")},
       .rule = "*, * -> * | lin A if value==0 | aff A | mono A | prod A if value==0 | prod A if "
               "value==1",
       .kernel =
           [](KernelCall& call) {
             kernels::masked_fill(call.ctx, call.inputs[0], call.inputs[1],
                                  call.attrs.get_double("value"), call.outputs[0]);
           },
       .infer = infer_masked_fill,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Attrs zero = {{"value", 0.0}};
         return {grad_like(c, c.call("masked_fill", {c.cotangent(0), c.input(1)}, zero), 0), Var{}};
       },
       .saved_inputs = {1},
       .declined = {"P(prod), P(max): a mask is read whole"},
       .samples = {{.shapes = {{8, 6}, {8, 6}}, .attrs = {{"value", -0.25}}, .dtypes = dtypes},
                   {.shapes = {{8, 6}, {6}}, .attrs = {{"value", 0.0}}, .dtypes = dtypes},
                   {.shapes = {{5, 3}, {5, 1}}, .attrs = {{"value", 1.5}}, .dtypes = dtypes}}});
}

}  // namespace

void add_where_ops(OpTable& table) {
  add_where(table);
  add_masked_fill(table);
  ops::add_in_place_forms(table, {"masked_fill"});
}

}  // namespace tessera
