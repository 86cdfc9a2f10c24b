// Products of ragged groups of rows with one weight each: a layer of experts. Groups are
// consecutive rows, so neither the rows nor the groups may be cut.
#include "kernels/matmul.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

const std::vector<DType>& dtypes() {
  static const std::vector<DType> kDTypes = {DType::kF64, DType::kF64, DType::kI64};
  return kDTypes;
}

Status check_counts(const TensorMeta& counts, std::int64_t groups) {
  if (counts.shape.size() == 1 && counts.shape[0] == groups && is_index(counts.dtype)) return {};
  return invalid_argument("counts " + to_string(counts.shape) + " of " +
                          std::string(name_of(counts.dtype)) + ", but must be integers [" +
                          std::to_string(groups) + "], one for each weight");
}

/// (rows, inner) with weights whose dim `inner_dim` must equal inner gives (rows, the other dim).
Infer infer_product(std::size_t inner_dim) {
  return [inner_dim](std::span<const TensorMeta> inputs,
                     const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
    const Shape& x = inputs[0].shape;
    const Shape& weight = inputs[1].shape;
    if (x.size() != 2 || weight.size() != 3 || x[1] != weight[inner_dim]) {
      return invalid_argument("rows " + to_string(x) + " and weights " + to_string(weight) +
                              ": need [t, k] and [e, n, k] with equal inner sizes");
    }
    TSR_RETURN_IF_ERROR(check_counts(inputs[2], weight[0]));
    return std::vector<TensorMeta>{
        {{x[0], weight[3 - inner_dim]}, promote(inputs[0].dtype, inputs[1].dtype)}};
  };
}

StatusOr<std::vector<TensorMeta>> infer_weight_grad(std::span<const TensorMeta> inputs,
                                                    const Attrs&) {
  const Shape& grad = inputs[0].shape;
  const Shape& x = inputs[1].shape;
  if (grad.size() != 2 || x.size() != 2 || grad[0] != x[0] || inputs[2].shape.size() != 1) {
    return invalid_argument("grad " + to_string(grad) + ", rows " + to_string(x) + ", counts " +
                            to_string(inputs[2].shape) + ": need [t, n], [t, k] and [e]");
  }
  return std::vector<TensorMeta>{
      {{inputs[2].shape[0], grad[1], x[1]}, promote(inputs[0].dtype, inputs[1].dtype)}};
}

std::vector<Var> grouped_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Var grad = c.cotangent(0);
  if (c.needs(0)) grads[0] = c.call("grouped_mm_input_grad", {grad, c.input(1), c.input(2)});
  if (c.needs(1)) grads[1] = c.call("grouped_mm_weight_grad", {grad, c.input(0), c.input(2)});
  return grads;
}

void add_gradients(OpTable& table) {
  table.must_add(
      {.name = "grouped_mm_input_grad",
       .doc = "Cotangent of grouped_mm's rows.",
       .args = {in("grad"), in("weight"), in("counts")},
       .rule = "tn, enk, e -> tk | n:sum e! t! | lin A*B",
       .kernel =
           [](KernelCall& call) {
             kernels::grouped_matmul(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                     call.outputs[0]);
           },
       .infer = infer_product(1),
       .declined = {"t and e cut alike: needs the groups' borders on every rank"},
       .samples = {{.shapes = {{10, 8}, {4, 8, 6}, {4}}, .dtypes = dtypes(), .below = {2, 2, 3}},
                   {.shapes = {{5, 3}, {2, 3, 5}, {2}}, .dtypes = dtypes(), .below = {2, 2, 3}}}});
  table.must_add(
      {.name = "grouped_mm_weight_grad",
       .doc = "Cotangent of grouped_mm's weights: zeros for a group without rows.",
       .args = {in("grad"), in("self"), in("counts")},
       .rule = "tn, tk, e -> enk | e! t! | lin A*B",
       .kernel =
           [](KernelCall& call) {
             kernels::grouped_matmul_weight_grad(call.ctx, call.inputs[0], call.inputs[1],
                                                 call.inputs[2], call.outputs[0]);
           },
       .infer = infer_weight_grad,
       .declined = {"t and e cut alike: needs the groups' borders on every rank"},
       .samples = {{.shapes = {{10, 6}, {10, 8}, {4}}, .dtypes = dtypes(), .below = {2, 2, 3}},
                   {.shapes = {{5, 5}, {5, 3}, {2}}, .dtypes = dtypes(), .below = {2, 2, 3}}}});
}

}  // namespace

void add_grouped_mm_ops(OpTable& table) {
  table.must_add(
      {.name = "grouped_mm",
       .doc = "Consecutive groups of rows, `counts` long, times the transpose of one weight [n, k] "
              "each; "
              "rows beyond the last group give zeros.",
       .args = {in("self"), in("weight"), in("counts")},
       .rule = "tk, enk, e -> tn | k:sum e! t! | lin A*B",
       .kernel =
           [](KernelCall& call) {
             kernels::grouped_matmul(call.ctx, call.inputs[0], call.inputs[1].transpose(1, 2),
                                     call.inputs[2], call.outputs[0]);
           },
       .infer = infer_product(2),
       .gradient = grouped_gradient,
       .saved_inputs = {0, 1, 2},
       .declined = {"t and e cut alike: needs the groups' borders on every rank"},
       .samples = {{.shapes = {{10, 8}, {4, 6, 8}, {4}}, .dtypes = dtypes(), .below = {2, 2, 3}},
                   {.shapes = {{5, 3}, {2, 5, 3}, {2}}, .dtypes = dtypes(), .below = {2, 2, 3}}}});
  add_gradients(table);
}

}  // namespace tessera
