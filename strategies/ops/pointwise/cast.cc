// Conversion between dtypes.
#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

namespace tessera {

void add_cast_ops(OpTable& table) {
  table.must_add(
      {.name = "to",
       .doc =
           "The same values as another dtype; a floating value goes to an integer towards zero, to "
           "its ends beyond them, and NaN to 0; U8 is the low byte, BOOL what is not zero.",
       .args = {in("self")},
       .attrs = {{"dtype", AttrDef::Type::kDType, {}}},
       .rule = "* -> * | lin A | prod A",
       .kernel = [](KernelCall& call) { kernels::copy(call.ctx, call.inputs[0], call.outputs[0]); },
       .infer = [](std::span<const TensorMeta> inputs,
                   const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
         return std::vector<TensorMeta>{{inputs[0].shape, attrs.get_dtype("dtype")}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.call("to", {c.cotangent(0)}, {{"dtype", c.input_dtype(0)}})};
       },
       .declined = {"P(max); P(min): not monotone where the result is BOOL, and the notation has "
                    "no guard on dtypes"},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dtype", DType::kF64}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dtype", DType::kI64}}, .differentiable = false},
                   {.shapes = {{5, 3}},
                    .attrs = {{"dtype", DType::kBool}},
                    .differentiable = false},
                   {.shapes = {{8, 2}},
                    .attrs = {{"dtype", DType::kF32}},
                    .dtypes = {DType::kI64},
                    .below = {9},
                    .differentiable = false},
                   {.shapes = {{8, 2}},
                    .attrs = {{"dtype", DType::kI64}},
                    .dtypes = {DType::kBool},
                    .differentiable = false}}});
}

}  // namespace tessera
