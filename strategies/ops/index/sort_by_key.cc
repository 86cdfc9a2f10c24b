// Stable grouping of items by a small integer key: what a dispatch of rows to experts starts from.
#include "kernels/select.h"
#include "strategies/ops/schema.h"

namespace tessera {

void add_sort_by_key_ops(OpTable& table) {
  table.must_add(
      {.name = "sort_by_key",
       .doc = "The stable order of keys in [0, num_keys) as source positions, and how often each "
              "key occurs.",
       .args = {in("keys")},
       .attrs = {ops::int_attr("num_keys")},
       .rule = "n -> n int, K int | n!",
       .num_outputs = 2,
       .kernel =
           [](KernelCall& call) {
             kernels::sort_by_key(call.ctx, call.inputs[0], call.attrs.get_int("num_keys"),
                                  call.outputs[0], call.outputs[1]);
           },
       .infer = [](std::span<const TensorMeta> inputs,
                   const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
         if (inputs[0].shape.size() != 1 || !is_index(inputs[0].dtype)) {
           return invalid_argument("keys " + to_string(inputs[0].shape) + " of " +
                                   std::string(name_of(inputs[0].dtype)) +
                                   ", but must be integers with one dim");
         }
         return std::vector<TensorMeta>{{inputs[0].shape, DType::kI64},
                                        {{attrs.get_int("num_keys")}, DType::kI64}};
       },
       .declined = {"lowering n: an order over all ranks moves the items; ranks sort their own "
                    "inside a region"},
       .samples = {{.shapes = {{9}},
                    .attrs = {{"num_keys", 4}},
                    .dtypes = {DType::kI64},
                    .below = {4},
                    .differentiable = false},
                   {.shapes = {{1}},
                    .attrs = {{"num_keys", 2}},
                    .dtypes = {DType::kI64},
                    .below = {2},
                    .differentiable = false}}});
}

}  // namespace tessera
