// Dense matrix products.
#include "kernels/matmul.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using ops::grad_like;
using ops::transposed;

StatusOr<std::vector<TensorMeta>> infer_matmul(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  if (a.size() < 2 || b.size() < 2 || a.back() != b[b.size() - 2]) {
    return ops::shapes_differ("self", a, "other", b,
                              "both need two dims (mv and dot take vectors), and the last of the "
                              "first must equal the last but one of the second");
  }
  TSR_ASSIGN_OR_RETURN(const DType dtype, ops::matmul_dtype(inputs, 0));
  TSR_ASSIGN_OR_RETURN(
      Shape out, ops::broadcast(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2)));
  out.push_back(a[a.size() - 2]);
  out.push_back(b.back());
  return std::vector<TensorMeta>{{out, dtype}};
}

std::vector<Var> matmul_gradient(GradContext& c) {
  std::vector<Var> grads(2);
  const Var grad = c.cotangent(0);
  if (c.needs(0)) {
    grads[0] = grad_like(c, c.call("matmul", {grad, transposed(c, c.input(1))}), 0);
  }
  if (c.needs(1)) {
    // One product over all rows instead of a batch of products that are then summed.
    const Var product = c.input_shape(1).size() == 2
                            ? c.call("linear_weight_grad", {c.input(0), grad})
                            : c.call("matmul", {transposed(c, c.input(0)), grad});
    grads[1] = grad_like(c, product, 1);
  }
  return grads;
}

StatusOr<std::vector<TensorMeta>> infer_linear(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  if (x.empty() || weight.size() != 2 || x.back() != weight[1]) {
    return ops::shapes_differ("input", x, "weight", weight,
                              "weight must be [n, k], and the input's last dim k");
  }
  if (!inputs[2].absent && inputs[2].shape != Shape{weight[0]}) {
    return ops::shapes_differ("weight", weight, "bias", inputs[2].shape, "bias must be [n]");
  }
  TSR_ASSIGN_OR_RETURN(const DType dtype, ops::matmul_dtype(inputs, 0));
  TensorMeta out = {x, dtype};
  out.shape.back() = weight[0];
  return std::vector<TensorMeta>{out};
}

std::vector<Var> linear_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Var grad = c.cotangent(0);
  if (c.needs(0)) grads[0] = grad_like(c, c.call("linear_input_grad", {grad, c.input(1)}), 0);
  if (c.needs(1)) grads[1] = grad_like(c, c.call("linear_weight_grad", {grad, c.input(0)}), 1);
  if (c.needs(2)) grads[2] = grad_like(c, grad, 2);
  return grads;
}

/// All leading dims as rows: an alias where strides allow it, else a copy.
Array as_rows(KernelContext& ctx, const Array& x) {
  const std::int64_t columns = x.shape().back();
  std::int64_t rows = 1;
  for (int dim = 0; dim + 1 < x.ndim(); ++dim) rows *= x.size(dim);
  const Array view = x.try_view({rows, columns});
  return view.is_null() ? kernels::contiguous(ctx, x).try_view({rows, columns}) : view;
}

void run_rows(KernelCall& call, const Array& weight_KN) {
  kernels::matmul(call.ctx, as_rows(call.ctx, call.inputs[0]), weight_KN,
                  as_rows(call.ctx, call.outputs[0]));
}

void run_linear(KernelCall& call) {
  run_rows(call, call.inputs[1].transpose(0, 1));
  const Array& bias = call.inputs[2];
  if (bias.is_null()) return;
  kernels::binary(call.ctx, kernels::Binary::kAdd, call.outputs[0], bias, call.outputs[0]);
}

void add_linear(OpTable& table) {
  table.must_add(
      {.name = "linear",
       .doc = "x times the transpose of weight [n, k], over x's last dim, plus bias [n].",
       .args = {in("input"), in("weight"), in_optional("bias")},
       .rule = "*k, nk, n? -> *n | k:sum | lin A*B+C",
       .kernel = run_linear,
       .infer = infer_linear,
       .gradient = linear_gradient,
       .saved_inputs = {0, 1},
       .declined = {"R, R, P(max); R, R, P(min): where the product is infinite, a rank that holds "
                    "the opposite infinity, as one without elements does, gives NaN"},
       .samples = {{.shapes = {{8, 6}, {8, 6}}},
                   {.shapes = {{5, 3}, {7, 3}, {7}}},
                   {.shapes = {{2, 4, 3}, {6, 3}}},
                   {.shapes = {{8, 6}, {7, 6}, {7}}}}});
  table.must_add({.name = "linear_input_grad",
                  .doc = "Cotangent of linear's input: grad times weight [n, k].",
                  .args = {in("grad"), in("weight")},
                  .rule = "*n, nk -> *k | n:sum | lin A*B",
                  .kernel = [](KernelCall& call) { run_rows(call, call.inputs[1]); },
                  .infer = [](std::span<const TensorMeta> inputs,
                              const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
                    TSR_ASSIGN_OR_RETURN(const DType dtype, ops::matmul_dtype(inputs, 0));
                    TensorMeta out = {inputs[0].shape, dtype};
                    out.shape.back() = inputs[1].shape[1];
                    return std::vector<TensorMeta>{out};
                  },
                  .samples = {{.shapes = {{8, 6}, {6, 8}}},
                              {.shapes = {{5, 3}, {3, 7}}},
                              {.shapes = {{2, 4, 3}, {3, 6}}}}});
  table.must_add(
      {.name = "linear_weight_grad",
       .doc = "Transpose of a times b, both with all leading dims as rows: a weight's cotangent.",
       .args = {in("a"), in("b")},
       .rule = "*n, *k -> nk | *:sum | lin A*B",
       .kernel =
           [](KernelCall& call) {
             kernels::matmul(call.ctx, as_rows(call.ctx, call.inputs[0]).transpose(0, 1),
                             as_rows(call.ctx, call.inputs[1]), call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs,
                   const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
         TSR_ASSIGN_OR_RETURN(const DType dtype, ops::matmul_dtype(inputs, 0));
         const Shape &a = inputs[0].shape, &b = inputs[1].shape;
         if (!std::equal(a.begin(), a.end() - 1, b.begin(), b.end() - 1)) {
           return ops::shapes_differ("a", a, "b", b, "all dims but the last must be equal");
         }
         return std::vector<TensorMeta>{{{a.back(), b.back()}, dtype}};
       },
       .samples = {{.shapes = {{8, 6}, {8, 8}}},
                   {.shapes = {{5, 3}, {5, 7}}},
                   {.shapes = {{2, 4, 3}, {2, 4, 6}}}}});
}

}  // namespace

void add_matmul_ops(OpTable& table) {
  table.must_add({.name = "matmul",
                  .doc = "Matrix product over the last two dims; leading dims broadcast.",
                  .args = {in("self"), in("other")},
                  .rule = "...mk, ...kn -> ...mn | k:sum | lin A*B",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::matmul(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
                      },
                  .infer = infer_matmul,
                  .gradient = matmul_gradient,
                  .saved_inputs = {0, 1},
                  .samples = {{.shapes = {{8, 6}, {6, 7}}},
                              {.shapes = {{5, 3}, {3, 7}}},
                              {.shapes = {{2, 4, 3}, {3, 6}}},
                              {.shapes = {{4, 1, 3, 2}, {3, 2, 5}}},
                              {.shapes = {{6, 7, 6}, {6, 6, 8}}}}});
  add_linear(table);
}

}  // namespace tessera
