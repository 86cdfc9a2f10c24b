// Running sums along a dim.
#include "kernels/reduce.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_cumsum(std::span<const TensorMeta> inputs,
                                               const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())).status());
  const bool floating = is_floating(inputs[0].dtype);
  return std::vector<TensorMeta>{{inputs[0].shape, floating ? inputs[0].dtype : DType::kI64}};
}

/// Σ from i on = total − Σ up to i + own.
std::vector<Var> cumsum_gradient(GradContext& c) {
  const Var grad = c.cotangent(0);
  const std::int64_t dim = c.attrs().get_int("dim");
  const Var total = c.call("sum", {grad}, {{"dim", Shape{dim}}, {"keepdim", true}});
  const Var before = c.call("cumsum", {grad}, {{"dim", dim}});
  return {c.call("add", {c.call("sub", {total, before}), grad})};
}

}  // namespace

void add_scan_ops(OpTable& table) {
  table.must_add(
      {.name = "cumsum",
       .doc = "Sum of all elements up to each along a dim; integers and BOOL are summed as I64.",
       .args = {in("self")},
       .attrs = {ops::int_attr("dim")},
       .rule = "*r@dim -> *r | r^ | lin A",
       .kernel =
           [](KernelCall& call) {
             kernels::cumsum(call.ctx, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                             call.outputs[0]);
           },
       .infer = infer_cumsum,
       .gradient = cumsum_gradient,
       .declined =
           {"S(r): an exclusive scan of totals holds only where ranks hold one interval each"},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", 0}}},
                   {.shapes = {{8, 2}},
                    .attrs = {{"dim", 1}},
                    .dtypes = {DType::kI64},
                    .below = {5},
                    .differentiable = false}}});
}

}  // namespace tessera
