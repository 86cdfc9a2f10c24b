// Slices of a dim overwritten at a 1-D index, elements read along a dim with broadcasting, and
// parts of a tensor overwritten by another.
#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/index_check.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

/// Adds an op and its in-place form; "-> *" of the rule becomes "-> &A *".
void add_both(OpTable& table, OpDef def) {
  OpDef in_place = def;
  in_place.name += "_";
  in_place.doc += " In place.";
  in_place.rule.insert(in_place.rule.find("-> ") + 3, "&A ");
  table.must_add(std::move(def));
  table.must_add(std::move(in_place));
}

void start_from_self(KernelCall& call) {
  if (call.outputs[0].storage() != call.inputs[0].storage()) {
    kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
  }
}

/// All positions of the index lie within a dim of `size`, though no element stand there.
void check_positions(KernelCall& call, const char* op, std::int64_t size) {
  kernels::check_indices(call.ctx, call.inputs[1], {op, size, call.absent});
}

/// A 1-D index, or one position, as an index of `shape` along `dim`.
Array on_lines(const Array& index, int dim, Shape shape) {
  shape[static_cast<std::size_t>(dim)] = index.num_elements();
  Shape strides(shape.size(), 0);
  strides[static_cast<std::size_t>(dim)] = index.ndim() == 0 ? 0 : index.strides()[0];
  return index.as_strided(shape, strides, index.offset());
}

Metas infer_index_copy(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta slices = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(slices.shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
  if (inputs[1].shape.size() == 1) {
    slices.shape[static_cast<std::size_t>(dim)] = inputs[1].shape[0];
  }
  if (inputs[1].shape.size() != 1 || inputs[2] != slices) {
    return invalid_argument("index " + to_string(inputs[1].shape) +
                            " must have one dim, and source " + to_string(inputs[2].shape) + " " +
                            std::string(name_of(inputs[2].dtype)) + " must be " +
                            to_string(slices.shape) + " " + std::string(name_of(slices.dtype)));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

void add_index_copy(OpTable& table) {
  add_both(table,
           {.name = "index_copy",
            .doc = "self with slices of source in place of those at a 1-D index of a dim; of equal "
                   "indices the last wins.",
            .args = {in("self"), in("index"), in("source")},
            .attrs = {ops::int_attr("dim")},
            .rule = "*g@dim, i, *i@dim -> *g | g#:own i! | lin A+C | max A,C | min A,C | prod A*C",
            .kernel =
                [](KernelCall& call) {
                  start_from_self(call);
                  const int dim = ops::kernel_dim(call, call.inputs[0]);
                  check_positions(call, "index_copy", call.outputs[0].size(dim));
                  kernels::scatter(call.ctx, call.outputs[0], dim,
                                   on_lines(call.inputs[1], dim, call.inputs[2].shape()),
                                   call.inputs[2], call.absent);
                },
            .infer = infer_index_copy,
            .gradient = [](GradContext& c) -> std::vector<Var> {
              const Attrs dim = {{"dim", c.attrs().get_int("dim")}};
              Attrs zero = dim;
              zero.set("value", 0.0);
              Var self, source;
              if (c.needs(0)) self = c.call("index_fill", {c.cotangent(0), c.input(1)}, zero);
              if (c.needs(2)) source = c.call("index_select", {c.cotangent(0), c.input(1)}, dim);
              return {self, Var{}, source};
            },
            .saved_inputs = {1},
            .samples = {{.shapes = {{8, 6}, {7}, {7, 6}},
                         .attrs = {{"dim", 0}},
                         .dtypes = {kF, kI, kF},
                         .below = {2, 8, 2},
                         .unique_dim = {-1, 0, -1}},
                        {.shapes = {{5, 3}, {2}, {5, 2}},
                         .attrs = {{"dim", -1}},
                         .dtypes = {kF, kI, kF},
                         .below = {2, 3, 2},
                         .unique_dim = {-1, 0, -1}}}});
}

std::vector<Sample> fill_samples() {
  std::vector<Sample> samples;
  for (const double value : {0.5, 0.0, 1.0}) {
    samples.push_back({.shapes = {{8, 6}, {7}},
                       .attrs = {{"dim", 0}, {"value", value}},
                       .dtypes = {kF, kI},
                       .below = {2, 8}});
  }
  samples.push_back({.shapes = {{5, 3}, {2}},
                     .attrs = {{"dim", 1}, {"value", -2.0}},
                     .dtypes = {kF, kI},
                     .below = {2, 3}});
  return samples;
}

void add_index_fill(OpTable& table) {
  add_both(table, {.name = "index_fill",
                   .doc = "self with `value` in the slices at a 1-D index of a dim.",
                   .args = {in("self"), in("index")},
                   .attrs = {ops::int_attr("dim"), ops::element_attr("value")},
                   .rule = "*g@dim, i -> *g | g#:own i! | lin A if value==0 | aff A | mono A | "
                           "prod A if value==0 | prod A if value==1",
                   .kernel =
                       [](KernelCall& call) {
                         start_from_self(call);
                         const Array& out = call.outputs[0];
                         const int dim = ops::kernel_dim(call, out);
                         check_positions(call, "index_fill", out.size(dim));
                         kernels::scatter_value(call.ctx, out, dim,
                                                on_lines(call.inputs[1], dim, out.shape()),
                                                call.attrs.get_double("value"), call.absent);
                       },
                   .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
                     TSR_RETURN_IF_ERROR(
                         ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())).status());
                     TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "index"));
                     if (inputs[1].shape.size() != 1) {
                       return invalid_argument("index " + to_string(inputs[1].shape) +
                                               ", but must have one dim");
                     }
                     return std::vector<TensorMeta>{inputs[0]};
                   },
                   .gradient = [](GradContext& c) -> std::vector<Var> {
                     return {c.call("index_fill", {c.cotangent(0), c.input(1)},
                                    {{"dim", c.attrs().get_int("dim")}, {"value", 0.0}}),
                             Var{}};
                   },
                   .saved_inputs = {1},
                   .declined = {"P(prod), S -> P(prod): right for value 0 only, and the notation "
                                "guards no contraction by an attribute"},
                   .samples = fill_samples()});
}

// ---- take_along_dim ----

/// The shape of self and of the indices, both broadcast outside `dim`.
StatusOr<std::pair<Shape, Shape>> along_dim(const Shape& self, const Shape& indices, int dim) {
  if (self.size() != indices.size()) {
    return invalid_argument("indices " + to_string(indices) + " and self " + to_string(self) +
                            " must have as many dims");
  }
  Shape a = self, b = indices;
  a[static_cast<std::size_t>(dim)] = b[static_cast<std::size_t>(dim)] = 1;
  TSR_ASSIGN_OR_RETURN(Shape both, ops::broadcast(a, b));
  Shape from = both;
  from[static_cast<std::size_t>(dim)] = self[static_cast<std::size_t>(dim)];
  both[static_cast<std::size_t>(dim)] = indices[static_cast<std::size_t>(dim)];
  return std::pair{std::move(from), std::move(both)};
}

void add_take_along_dim(OpTable& table) {
  table.must_add(
      {.name = "take_along_dim",
       .doc = "out[.., i, ..] = self[.., indices[.., i, ..], ..] along a dim; all other dims "
              "broadcast.",
       .args = {in("self"), in("indices")},
       .attrs = {ops::int_attr("dim")},
       .rule = "*g@dim, *i@dim -> *i | g#:sum | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array& self = call.inputs[0];
             const int dim = ops::kernel_dim(call, self);
             check_positions(call, "take_along_dim", self.size(dim));
             const auto [from, to] =
                 value_or_throw(along_dim(self.shape(), call.inputs[1].shape(), dim));
             kernels::gather(call.ctx, ops::broadcast_view(self, from), dim,
                             ops::broadcast_view(call.inputs[1], to), call.absent, call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_ASSIGN_OR_RETURN(const int dim,
                              ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
         TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "indices"));
         TSR_ASSIGN_OR_RETURN(const auto shapes, along_dim(inputs[0].shape, inputs[1].shape, dim));
         return std::vector<TensorMeta>{{shapes.second, inputs[0].dtype}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const int dim = value_or_throw(
             normalize_dim(c.attrs().get_int("dim"), static_cast<int>(c.input_shape(0).size())));
         const auto shapes = value_or_throw(along_dim(c.input_shape(0), c.input_shape(1), dim));
         const Var index = c.call("expand", {c.input(1)}, {{"size", shapes.second}});
         const Var grad = c.call("gather_grad", {c.cotangent(0), index},
                                 {{"dim", std::int64_t{dim}}, {"size", shapes.first}});
         return {c.sum_to(grad, c.input_shape(0)), Var{}};
       },
       .saved_inputs = {1},
       .samples = {{.shapes = {{8, 6}, {8, 7}},
                    .attrs = {{"dim", 1}},
                    .dtypes = {kF, kI},
                    .below = {2, 6}},
                   {.shapes = {{5, 1, 3}, {2, 4, 3}},
                    .attrs = {{"dim", 0}},
                    .dtypes = {kF, kI},
                    .below = {2, 5}},
                   {.shapes = {{5, 3}, {1, 4}},
                    .attrs = {{"dim", 1}},
                    .dtypes = {kF, kI},
                    .below = {2, 3}}}});
}

// ---- select_scatter, slice_scatter ----

/// Positions start, start + step, … of a dim.
struct Stretch {
  int dim = 0;
  std::int64_t start = 0, count = 0, step = 1;
};

StatusOr<Stretch> slice_stretch(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  // A step beyond the dim takes one position, whatever it is.
  const std::int64_t step = std::min(attrs.get_int_or("step", 1), std::max<std::int64_t>(size, 1));
  if (step < 1) {
    return invalid_argument("step is " + std::to_string(step) + ", but must be at least 1");
  }
  const auto position = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t start = position(attrs.get_int("start"));
  const std::int64_t stop = std::max(start, position(attrs.get_int("end")));
  return Stretch{dim, start, (stop - start + step - 1) / step, step};
}

StatusOr<Stretch> select_stretch(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const ops::SelectedIndex at, ops::selected_index(shape, attrs));
  return Stretch{at.dim, at.index, 1, 1};
}

using StretchOf = StatusOr<Stretch> (*)(const Shape&, const Attrs&);

template <StretchOf kStretch>
Metas infer_part_scatter(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const Stretch stretch, kStretch(inputs[0].shape, attrs));
  Shape part = inputs[0].shape;
  if constexpr (kStretch == select_stretch) {
    part.erase(part.begin() + stretch.dim);
  } else {
    part[static_cast<std::size_t>(stretch.dim)] = stretch.count;
  }
  if (inputs[1].shape != part || inputs[1].dtype != inputs[0].dtype) {
    return invalid_argument("src " + to_string(inputs[1].shape) + " " +
                            std::string(name_of(inputs[1].dtype)) + " must be " + to_string(part) +
                            " " + std::string(name_of(inputs[0].dtype)));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

/// Each element of self's part of the dim that the stretch names is taken from src, whole on the
/// dim.
template <StretchOf kStretch>
void run_part_scatter(KernelCall& call) {
  const Array& out = call.outputs[0];
  kernels::copy(call.ctx, call.inputs[0], out);
  const OperandView view = ops::input_view(call, 0);
  const Shape& whole = view.spec != nullptr ? view.spec->global_shape() : out.shape();
  const Stretch stretch = value_or_throw(kStretch(whole, call.attrs));
  Array src = call.inputs[1];
  if (src.ndim() < out.ndim()) {
    Shape shape = src.shape(), strides = src.strides();
    shape.insert(shape.begin() + stretch.dim, 1);
    strides.insert(strides.begin() + stretch.dim, 0);
    src = src.as_strided(shape, strides, src.offset());
  }
  const std::vector<std::int64_t> global =
      ops::global_indices(view, out.shape())[static_cast<std::size_t>(stretch.dim)];
  for (std::size_t i = 0; i < global.size(); ++i) {
    const std::int64_t from = global[i] - stretch.start;
    if (from < 0 || from % stretch.step != 0 || from / stretch.step >= stretch.count) continue;
    const auto at = static_cast<std::int64_t>(i);
    kernels::copy(call.ctx, src.slice(stretch.dim, from / stretch.step, from / stretch.step + 1),
                  out.slice(stretch.dim, at, at + 1));
  }
}

void add_part_scatter(OpTable& table) {
  OpDef slice = {
      .name = "slice_scatter",
      .doc = "self with src in place of its slice [start, end) by step of a dim.",
      .args = {in("self"), in("src")},
      .attrs = {ops::int_attr("dim", 0), ops::int_attr("start", 0),
                ops::int_attr("end", std::numeric_limits<std::int64_t>::max()),
                ops::int_attr("step", 1)},
      .rule = "*r@dim, *K@dim -> *r | lin A+B | max A,B | min A,B | prod A*B",
      .kernel = run_part_scatter<slice_stretch>,
      .infer = infer_part_scatter<slice_stretch>,
      .gradient = [](GradContext& c) -> std::vector<Var> {
        const Attrs& attrs = c.attrs();
        const Var part = c.call("slice", {c.cotangent(0)}, attrs);
        const Var zeros = c.call("zeros_like", {part});
        return {c.call("slice_scatter", {c.cotangent(0), zeros}, attrs), part};
      },
      .samples = {{.shapes = {{9, 6}, {6, 6}}, .attrs = {{"dim", 0}, {"start", 2}, {"end", 8}}},
                  {.shapes = {{8, 6}, {8, 3}}, .attrs = {{"dim", 1}, {"step", 2}}},
                  {.shapes = {{5, 3}, {2, 3}}, .attrs = {{"dim", 0}, {"start", -2}}}}};
  table.must_add(std::move(slice));
  OpDef select = {
      .name = "select_scatter",
      .doc = "self with src in place of its slice at `index` of a dim.",
      .args = {in("self"), in("src")},
      .attrs = {ops::int_attr("dim"), ops::int_attr("index")},
      .rule = "*r@dim, * -> *r | lin A+B | max A,B | min A,B | prod A*B",
      .kernel = run_part_scatter<select_stretch>,
      .infer = infer_part_scatter<select_stretch>,
      .gradient = [](GradContext& c) -> std::vector<Var> {
        const Attrs& attrs = c.attrs();
        const Var part = c.call("select", {c.cotangent(0)}, attrs);
        const Var zeros = c.call("zeros_like", {part});
        return {c.call("select_scatter", {c.cotangent(0), zeros}, attrs), part};
      },
      .samples = {{.shapes = {{8, 6}, {6}}, .attrs = {{"dim", 0}, {"index", 2}}},
                  {.shapes = {{5, 6, 3}, {5, 3}}, .attrs = {{"dim", 1}, {"index", -1}}}}};
  table.must_add(std::move(select));
}

}  // namespace

void add_index_assign_ops(OpTable& table) {
  add_index_copy(table);
  add_index_fill(table);
  add_take_along_dim(table);
  add_part_scatter(table);
}

}  // namespace tessera
