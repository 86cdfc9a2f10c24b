// The trace of a matrix and the cross product of vectors of three.
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using kernels::Binary;
using Metas = StatusOr<std::vector<TensorMeta>>;

/// Where local element 0, 1, … of dim `dim` stands in the whole tensor.
std::vector<std::int64_t> global_places(const KernelCall& call, int dim) {
  std::vector<std::int64_t> places;
  if (call.input_views.empty()) {
    for (std::int64_t i = 0; i < call.inputs[0].size(dim); ++i) places.push_back(i);
    return places;
  }
  for (const Interval& run : held_part(call.input_views[0], dim).held) {
    for (std::int64_t i = run.start; i < run.stop; ++i) places.push_back(i);
  }
  return places;
}

/// Σ of the local elements whose row and column are the same in the whole matrix.
void run_trace(KernelCall& call) {
  const Array& x = call.inputs[0];
  const std::vector<std::int64_t> rows = global_places(call, 0), columns = global_places(call, 1);
  std::vector<Array> met;
  kernels::fill(call.ctx, 0.0, call.outputs[0]);
  for (std::size_t i = 0, j = 0; i < rows.size() && j < columns.size();) {
    if (rows[i] == columns[j]) {
      const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
      met.push_back(x.slice(0, row, row + 1).slice(1, column, column + 1).try_view({}));
    }
    const bool row_first = rows[i] <= columns[j], column_first = columns[j] <= rows[i];
    if (row_first) ++i;
    if (column_first) ++j;
  }
  const Array diagonal = ops::scratch(call, {static_cast<std::int64_t>(met.size())}, x.dtype());
  for (std::size_t i = 0; i < met.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    kernels::copy(call.ctx, met[i], diagonal.slice(0, at, at + 1).try_view({}));
  }
  const int dims[] = {0};
  kernels::reduce(call.ctx, ReduceOp::kSum, diagonal, dims, call.outputs[0]);
}

void add_trace(OpTable& table) {
  table.must_add(
      {.name = "trace",
       .doc = "Sum of a matrix's diagonal; of integers in I64.",
       .args = {in("self")},
       .rule = "mn -> | m:sum n:sum | lin A",
       .kernel = run_trace,
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
         if (inputs[0].shape.size() != 2) {
           return invalid_argument("self " + to_string(inputs[0].shape) + " must be a matrix");
         }
         const DType dtype = inputs[0].dtype;
         return std::vector<TensorMeta>{{{}, is_floating(dtype) ? dtype : DType::kI64}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.call("trace_grad", {c.cotangent(0)}, {{"size", c.input_shape(0)}})};
       },
       .samples =
           {{.shapes = {{8, 6}}},
            {.shapes = {{5, 3}}},
            {.shapes = {{6, 7}}, .dtypes = {DType::kI64}, .below = {5}, .differentiable = false}}});
  table.must_add(
      {.name = "trace_grad",
       .doc = "A matrix of `size` with the operand on its diagonal, zeros elsewhere.",
       .args = {in("grad").dims(0)},
       .attrs = {ops::ints_attr("size")},
       .rule = "* -> *MN | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array& out = call.outputs[0];
             kernels::fill(call.ctx, 0.0, out);
             const std::int64_t length = std::min(out.size(0), out.size(1));
             const Array diagonal =
                 out.as_strided({length}, {out.strides()[0] + out.strides()[1]}, out.offset());
             kernels::copy(call.ctx, ops::broadcast_view(call.inputs[0], {length}), diagonal);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         const Shape size = attrs.get_ints("size");
         if (size.size() == 2) return std::vector<TensorMeta>{{size, inputs[0].dtype}};
         return invalid_argument("size is " + to_string(size) + ", but must be that of a matrix");
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.call("trace", {c.cotangent(0)})};
       },
       .samples = {{.shapes = {{}}, .attrs = {{"size", Shape{8, 6}}}},
                   {.shapes = {{}}, .attrs = {{"size", Shape{3, 5}}}}}});
}

/// Entry `i` of three along `dim`.
Array entry(const Array& x, int dim, int i) { return x.slice(dim, i, i + 1); }

void run_cross(KernelCall& call) {
  const Array& out = call.outputs[0];
  const int dim = ops::kernel_dim(call, out);
  const Array a = ops::broadcast_view(call.inputs[0], out.shape());
  const Array b = ops::broadcast_view(call.inputs[1], out.shape());
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    const Array target = entry(out, dim, i);
    const Array product = ops::scratch(call, target.shape(), out.dtype());
    kernels::binary(call.ctx, Binary::kMul, entry(a, dim, j), entry(b, dim, k), target);
    kernels::binary(call.ctx, Binary::kMul, entry(a, dim, k), entry(b, dim, j), product);
    kernels::binary(call.ctx, Binary::kSub, target, product, target);
  }
}

Metas infer_cross(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_elementwise(inputs, attrs));
  const auto ndim = static_cast<int>(out[0].shape.size());
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, ndim));
  const auto at = static_cast<std::size_t>(dim);
  if (a.size() != b.size() || a[at] != 3 || b[at] != 3) {
    return ops::shapes_differ(
        "self", a, "other", b,
        "need equally many dims, and 3 elements along dim " + std::to_string(dim));
  }
  return out;
}

void add_cross(OpTable& table) {
  table.must_add(
      {.name = "linalg_cross",
       .doc = "Cross products of the vectors of three along a dim; other dims broadcast.",
       .args = {in("self").numbers(), in("other").numbers()},
       .attrs = {ops::int_attr("dim", -1)},
       .rule = "*r@dim, *r@dim -> *r | r! | lin A*B",
       .kernel = run_cross,
       .infer = infer_cross,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Attrs& attrs = c.attrs();
         const Var grad = c.cotangent(0);
         return {
             c.needs(0) ? ops::grad_like(c, c.call("linalg_cross", {c.input(1), grad}, attrs), 0)
                        : Var{},
             c.needs(1) ? ops::grad_like(c, c.call("linalg_cross", {grad, c.input(0)}, attrs), 1)
                        : Var{}};
       },
       .saved_inputs = {0, 1},
       .samples = {{.shapes = {{8, 3}, {8, 3}}, .attrs = {{"dim", std::int64_t{1}}}},
                   {.shapes = {{3, 5}, {3, 5}}, .attrs = {{"dim", std::int64_t{0}}}},
                   {.shapes = {{2, 3, 6}, {1, 3, 6}}, .attrs = {{"dim", std::int64_t{1}}}}}});
}

}  // namespace

void add_product_matrix_parts_ops(OpTable& table) {
  add_trace(table);
  add_cross(table);
}

}  // namespace tessera
