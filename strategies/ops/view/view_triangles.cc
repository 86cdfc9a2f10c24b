// Triangles and diagonals of the last (or two given) dims.
#include <algorithm>
#include <cstdlib>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Specs = std::span<const Spec* const>;
using Strategies = StatusOr<std::vector<Strategy>>;

// ---- tril, triu ----

Metas infer_matrix(std::span<const TensorMeta> inputs, const Attrs&) {
  if (inputs[0].shape.size() >= 2) return std::vector<TensorMeta>{inputs[0]};
  return invalid_argument("self " + to_string(inputs[0].shape) +
                          ", but must have two dims or more");
}

enum class Triangle : std::uint8_t { kLower, kUpper };

/// Keeps what lies on or beside the global diagonal: the mask of the plane, 1 where kept.
template <Triangle kTriangle>
void run_triangle(KernelCall& call) {
  const Array& x = call.inputs[0];
  const OperandView view = ops::input_view(call, 0);
  const int columns = x.ndim() - 1, rows = columns - 1;
  const Array row = held_positions(call.ctx, view, rows, x.size(rows)).try_view({x.size(rows), 1});
  const Array column = held_positions(call.ctx, view, columns, x.size(columns));
  const Shape plane = {x.size(rows), x.size(columns)};
  const Array beyond = ops::scratch(call, plane, DType::kI64);  // the diagonal through (0, 0)
  kernels::binary(call.ctx, kernels::Binary::kSub, column, row, beyond);
  const Array kept = ops::scratch(call, plane, DType::kBool);
  kernels::binary_scalar(
      call.ctx, kTriangle == Triangle::kLower ? kernels::Binary::kLe : kernels::Binary::kGe, beyond,
      static_cast<double>(call.attrs.get_int("diagonal")), kept);
  const Array zero = ops::scratch(call, {}, x.dtype());
  kernels::fill(call.ctx, 0.0, zero);
  kernels::where(call.ctx, kept, x, zero, call.outputs[0]);
}

template <Triangle kTriangle>
void add_triangle(OpTable& table, const std::string& name, std::string doc) {
  const auto back = [name](GradContext& c) -> std::vector<Var> {
    return {c.call(name, {c.cotangent(0)}, c.attrs())};
  };
  OpDef def = {.name = name,
               .doc = std::move(doc),
               .args = {in("self")},
               .attrs = {ops::offset_attr("diagonal", 0)},
               .rule = "* -> * | lin A | mono A | prod A",
               .kernel = run_triangle<kTriangle>,
               .infer = infer_matrix,
               .gradient = back,
               .samples = {{.shapes = {{8, 6}}},
                           {.shapes = {{2, 5, 3}}, .attrs = {{"diagonal", -1}}},
                           {.shapes = {{6, 7}}, .attrs = {{"diagonal", 2}}}}};
  OpDef in_place = def;
  in_place.name += "_";
  in_place.doc += " In place.";
  in_place.rule = "* -> &A * | lin A | mono A | prod A";
  table.must_add(std::move(def));
  table.must_add(std::move(in_place));
}

// ---- diagonals ----

/// The plane of a call and where its diagonal starts.
struct Plane {
  int row_dim = 0, column_dim = 0;
  std::int64_t offset = 0;
};

StatusOr<Plane> plane_of(const Attrs& attrs, std::size_t ndim) {
  Plane plane{.offset = attrs.get_int("offset")};
  TSR_ASSIGN_OR_RETURN(plane.row_dim, ops::dim_attr(attrs, static_cast<int>(ndim), "dim1"));
  TSR_ASSIGN_OR_RETURN(plane.column_dim, ops::dim_attr(attrs, static_cast<int>(ndim), "dim2"));
  if (plane.row_dim != plane.column_dim) return plane;
  return invalid_argument("dim1 and dim2 are both " + std::to_string(plane.row_dim));
}

std::int64_t diagonal_length(const Plane& plane, const Shape& shape) {
  const std::int64_t rows = shape[static_cast<std::size_t>(plane.row_dim)];
  const std::int64_t columns = shape[static_cast<std::size_t>(plane.column_dim)];
  const std::int64_t length = plane.offset >= 0 ? std::min(rows, columns - plane.offset)
                                                : std::min(rows + plane.offset, columns);
  return std::max<std::int64_t>(length, 0);
}

/// The view of a diagonal, as the last dim.
Array diagonal_view(const Array& x, const Plane& plane) {
  Shape shape, strides;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == plane.row_dim || d == plane.column_dim) continue;
    shape.push_back(x.size(d));
    strides.push_back(x.strides()[static_cast<std::size_t>(d)]);
  }
  const std::int64_t row_step = x.strides()[static_cast<std::size_t>(plane.row_dim)];
  const std::int64_t column_step = x.strides()[static_cast<std::size_t>(plane.column_dim)];
  shape.push_back(diagonal_length(plane, x.shape()));
  strides.push_back(row_step + column_step);
  if (num_elements(shape) == 0) return x.as_strided(shape, strides, 0);  // wherever it may begin
  const std::int64_t first =
      plane.offset >= 0 ? plane.offset * column_step : -plane.offset * row_step;
  return x.as_strided(shape, strides, x.offset() + first);
}

Metas infer_diagonal(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& from = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const Plane plane, plane_of(attrs, from.size()));
  TensorMeta out = {{}, inputs[0].dtype};
  for (std::size_t d = 0; d < from.size(); ++d) {
    const int dim = static_cast<int>(d);
    if (dim != plane.row_dim && dim != plane.column_dim) out.shape.push_back(from[d]);
  }
  out.shape.push_back(diagonal_length(plane, from));
  return std::vector<TensorMeta>{out};
}

/// For each dim of the diagonal, the operand's.
std::vector<int> diagonal_sources(const Plane& plane, std::size_t ndim) {
  std::vector<int> sources;
  for (int d = 0; d < static_cast<int>(ndim); ++d) {
    if (d != plane.row_dim && d != plane.column_dim) sources.push_back(d);
  }
  sources.push_back(-1);
  return sources;
}

Attrs plane_attrs(const Plane& plane) {
  return {{"offset", plane.offset},
          {"dim1", std::int64_t{plane.row_dim}},
          {"dim2", std::int64_t{plane.column_dim}}};
}

void add_diagonal(OpTable& table) {
  table.must_add(
      {.name = "diagonal",
       .doc = "The diagonal of the plane of dim1 and dim2 as the last dim, `offset` above the main "
              "one; both dims are whole, all others keep their cuts.",
       .args = {in("self")},
       .attrs = {ops::offset_attr("offset", 0), ops::int_attr("dim1", 0), ops::int_attr("dim2", 1)},
       .rule = "",
       .kernel =
           [](KernelCall& call) {
             const Array& x = call.inputs[0];
             call.outputs[0] =
                 diagonal_view(x, value_or_throw(plane_of(call.attrs, x.shape().size())));
           },
       .infer = infer_diagonal,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const auto plane = value_or_throw(plane_of(c.attrs(), c.input_shape(0).size()));
         const Var zeros = c.call("new_zeros", {c.cotangent(0)}, {{"size", c.input_shape(0)}});
         return {c.call("diagonal_scatter", {zeros, c.cotangent(0)}, plane_attrs(plane))};
       },
       .strategies = [](Specs inputs, std::span<const TensorMeta> outputs,
                        const Attrs& attrs) -> Strategies {
         TSR_ASSIGN_OR_RETURN(const Plane plane, plane_of(attrs, inputs[0]->global_shape().size()));
         return ops::dim_map_strategies(*inputs[0], outputs[0],
                                        diagonal_sources(plane, inputs[0]->global_shape().size()));
       },
       .is_view = true,
       .samples = {{.shapes = {{8, 6}}},
                   {.shapes = {{6, 7, 8}}, .attrs = {{"offset", 2}, {"dim1", 0}, {"dim2", 2}}},
                   {.shapes = {{5, 2, 3}}, .attrs = {{"offset", -1}, {"dim1", -1}, {"dim2", 0}}}}});
}

void add_diagonal_scatter(OpTable& table) {
  table.must_add(
      {.name = "diagonal_scatter",
       .doc = "self with src in place of the diagonal that `diagonal` would give.",
       .args = {in("self"), in("src")},
       .attrs = {ops::offset_attr("offset", 0), ops::int_attr("dim1", 0), ops::int_attr("dim2", 1)},
       .rule = "*r@dim1 c@dim2, *k -> *rc | r! c! k! | lin A+B | max A,B | min A,B | prod A*B",
       .kernel =
           [](KernelCall& call) {
             const Array& out = call.outputs[0];
             kernels::copy(call.ctx, call.inputs[0], out);
             const auto plane = value_or_throw(plane_of(call.attrs, out.shape().size()));
             kernels::copy(call.ctx, call.inputs[1], diagonal_view(out, plane));
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_ASSIGN_OR_RETURN(const auto diagonal, infer_diagonal(inputs, attrs));
         if (inputs[1] == diagonal[0]) return std::vector<TensorMeta>{inputs[0]};
         return invalid_argument("src " + to_string(inputs[1].shape) + " " +
                                 std::string(name_of(inputs[1].dtype)) +
                                 " must be like the diagonal, " + to_string(diagonal[0].shape) +
                                 " " + std::string(name_of(diagonal[0].dtype)));
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Var part = c.call("diagonal", {c.cotangent(0)}, c.attrs());
         const Var zeros = c.call("zeros_like", {part});
         return {c.call("diagonal_scatter", {c.cotangent(0), zeros}, c.attrs()), part};
       },
       .samples = {{.shapes = {{8, 6}, {6}}},
                   {.shapes = {{6, 7, 9}, {7, 6}}, .attrs = {{"offset", 2}, {"dim2", 2}}},
                   {.shapes = {{5, 3}, {3}}, .attrs = {{"offset", -2}}}}});
}

// ---- diag_embed, diag ----

/// Dims of the result of diag_embed on an operand of `ndim` dims, the last of which is the
/// diagonal.
Metas infer_diag_embed(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& from = inputs[0].shape;
  if (from.empty()) return invalid_argument("self has no dim to make a diagonal of");
  TSR_ASSIGN_OR_RETURN(const Plane plane, plane_of(attrs, from.size() + 1));
  const std::int64_t size = (CheckedInt(from.back()) + std::abs(plane.offset)).clamped();
  TensorMeta out = {Shape(from.size() + 1, size), inputs[0].dtype};
  std::size_t next = 0;
  for (int d = 0; d < static_cast<int>(out.shape.size()); ++d) {
    if (d == plane.row_dim || d == plane.column_dim) continue;
    out.shape[static_cast<std::size_t>(d)] = from[next++];
  }
  return std::vector<TensorMeta>{out};
}

Strategies embed_strategies(Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const Plane plane, plane_of(attrs, outputs[0].shape.size()));
  std::vector<int> sources;
  int next = 0;
  for (int d = 0; d < static_cast<int>(outputs[0].shape.size()); ++d) {
    sources.push_back(d == plane.row_dim || d == plane.column_dim ? -1 : next++);
  }
  return ops::dim_map_strategies(*inputs[0], outputs[0], sources);
}

void run_diag_embed(KernelCall& call) {
  const Array& out = call.outputs[0];
  kernels::fill(call.ctx, 0.0, out);
  const auto plane = value_or_throw(plane_of(call.attrs, out.shape().size()));
  kernels::copy(call.ctx, call.inputs[0], diagonal_view(out, plane));
}

/// diag's attribute, as those of the op that does it.
Attrs diag_attrs(const Attrs& attrs) {
  return {
      {"offset", attrs.get_int("diagonal")}, {"dim1", std::int64_t{0}}, {"dim2", std::int64_t{1}}};
}

void run_diag(KernelCall& call) {
  const Plane plane = value_or_throw(plane_of(diag_attrs(call.attrs), 2));
  const Array& x = call.inputs[0];
  const Array& out = call.outputs[0];
  if (x.ndim() == 2) return kernels::copy(call.ctx, diagonal_view(x, plane), out);
  kernels::fill(call.ctx, 0.0, out);
  kernels::copy(call.ctx, x, diagonal_view(out, plane));
}

void add_diag_embed(OpTable& table) {
  table.must_add(
      {.name = "diag_embed",
       .doc = "The last dim as a diagonal of a new plane (dim1, dim2) of zeros.",
       .args = {in("self")},
       .attrs = {ops::offset_attr("offset", 0), ops::int_attr("dim1", -2),
                 ops::int_attr("dim2", -1)},
       .rule = "",
       .kernel = run_diag_embed,
       .infer = infer_diag_embed,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.call("diagonal", {c.cotangent(0)}, c.attrs())};
       },
       .strategies = embed_strategies,
       .samples = {{.shapes = {{8, 6}}},
                   {.shapes = {{5, 3}}, .attrs = {{"offset", -1}, {"dim1", 0}, {"dim2", 2}}}}});
  table.must_add(
      {.name = "diag",
       .doc = "The diagonal of a matrix, or the matrix of zeros with this diagonal.",
       .args = {in("self")},
       .attrs = {ops::offset_attr("diagonal", 0)},
       .rule = "",
       .kernel = run_diag,
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         const std::size_t ndim = inputs[0].shape.size();
         if (ndim == 1) return infer_diag_embed(inputs, diag_attrs(attrs));
         if (ndim == 2) return infer_diagonal(inputs, diag_attrs(attrs));
         return invalid_argument("self " + to_string(inputs[0].shape) +
                                 ", but must have one or two dims");
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         if (c.input_shape(0).size() == 1) {
           return {c.call("diag", {c.cotangent(0)}, c.attrs())};
         }
         const Var zeros = c.call("new_zeros", {c.cotangent(0)}, {{"size", c.input_shape(0)}});
         return {c.call("diagonal_scatter", {zeros, c.cotangent(0)}, diag_attrs(c.attrs()))};
       },
       .strategies = [](Specs inputs, std::span<const TensorMeta> outputs,
                        const Attrs&) -> Strategies {
         return ops::dim_map_strategies(*inputs[0], outputs[0],
                                        std::vector<int>(outputs[0].shape.size(), -1));
       },
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"diagonal", 1}}},
                   {.shapes = {{6}}, .attrs = {{"diagonal", -2}}},
                   {.shapes = {{5, 3}}}}});
}

}  // namespace

void add_view_triangles_ops(OpTable& table) {
  add_triangle<Triangle::kLower>(table, "tril",
                                 "The lower triangle of the last two dims, up to `diagonal` above "
                                 "the main one; 0 elsewhere.");
  add_triangle<Triangle::kUpper>(table, "triu",
                                 "The upper triangle of the last two dims, from `diagonal` above "
                                 "the main one; 0 elsewhere.");
  add_diagonal(table);
  add_diagonal_scatter(table);
  add_diag_embed(table);
}

}  // namespace tessera
