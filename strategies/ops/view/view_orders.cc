// Views that reorder dims or add some of size 1 under other names, and windows over a dim.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Specs = std::span<const Spec* const>;
using Strategies = StatusOr<std::vector<Strategy>>;

/// For each dim of the result, the operand's dim (each once), or −1 for a new one of size 1.
using Sources = StatusOr<std::vector<int>> (*)(std::size_t ndim, const Attrs& attrs);

std::vector<int> in_order(std::size_t ndim) {
  std::vector<int> sources(ndim);
  for (std::size_t d = 0; d < ndim; ++d) sources[d] = static_cast<int>(d);
  return sources;
}

StatusOr<std::vector<int>> moved(std::size_t ndim, const Attrs& attrs) {
  const Shape from = attrs.get_ints("source"), to = attrs.get_ints("destination");
  const int dims = ops::nameable_dims(ndim);
  std::vector<int> sources(static_cast<std::size_t>(dims), -1);
  std::vector<bool> placed(static_cast<std::size_t>(dims), false);
  if (from.size() != to.size()) {
    return invalid_argument("source " + to_string(from) + " and destination " + to_string(to) +
                            " must be as many");
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    TSR_ASSIGN_OR_RETURN(const int dim, normalize_dim(from[i], dims));
    TSR_ASSIGN_OR_RETURN(const int place, normalize_dim(to[i], dims));
    if (placed[static_cast<std::size_t>(dim)] || sources[static_cast<std::size_t>(place)] >= 0) {
      return invalid_argument("source " + to_string(from) + " or destination " + to_string(to) +
                              " names a dim twice");
    }
    placed[static_cast<std::size_t>(dim)] = true;
    sources[static_cast<std::size_t>(place)] = dim;
  }
  std::size_t next = 0;
  for (int& source : sources) {
    if (source >= 0) continue;
    while (placed[next]) ++next;
    source = static_cast<int>(next++);
  }
  if (ndim == 0) sources.clear();
  return sources;
}

StatusOr<std::vector<int>> swapped(std::size_t ndim, const Attrs& attrs) {
  const bool axes = attrs.has("axis0");
  const int size = ops::nameable_dims(ndim);
  TSR_ASSIGN_OR_RETURN(const int a, ops::dim_attr(attrs, size, axes ? "axis0" : "dim0"));
  TSR_ASSIGN_OR_RETURN(const int b, ops::dim_attr(attrs, size, axes ? "axis1" : "dim1"));
  std::vector<int> sources = in_order(ndim);
  if (ndim > 0)
    std::swap(sources[static_cast<std::size_t>(a)], sources[static_cast<std::size_t>(b)]);
  return sources;
}

StatusOr<std::vector<int>> transposed(std::size_t ndim, const Attrs&) {
  std::vector<int> sources = in_order(ndim);
  if (ndim > 2) {
    return invalid_argument("self has " + std::to_string(ndim) + " dims; t takes at most 2");
  }
  std::reverse(sources.begin(), sources.end());
  return sources;
}

StatusOr<std::vector<int>> last_two_swapped(std::size_t ndim, const Attrs&) {
  std::vector<int> sources = in_order(ndim);
  if (ndim < 2) {
    return invalid_argument("self has " + std::to_string(ndim) +
                            " dims, but must have two or more");
  }
  std::swap(sources[ndim - 1], sources[ndim - 2]);
  return sources;
}

template <int kLeast>
StatusOr<std::vector<int>> at_least(std::size_t ndim, const Attrs&) {
  std::vector<int> sources = in_order(ndim);
  if (kLeast == 3 && ndim == 2) sources.push_back(-1);
  if (kLeast == 3 && ndim == 1) return std::vector<int>{-1, 0, -1};
  while (sources.size() < kLeast) sources.insert(sources.begin(), -1);
  return sources;
}

Shape permuted(const Shape& shape, const std::vector<int>& sources, std::int64_t of_new) {
  Shape out;
  for (const int source : sources) {
    out.push_back(source < 0 ? of_new : shape[static_cast<std::size_t>(source)]);
  }
  return out;
}

/// Drops the new dims, then puts the others back.
std::vector<Var> order_gradient(GradContext& c, Sources sources_of) {
  const Shape& shape = c.input_shape(0);
  std::vector<int> sources = value_or_throw(sources_of(shape.size(), c.attrs()));
  std::erase(sources, -1);
  Shape inverse(shape.size(), 0);
  for (std::size_t d = 0; d < sources.size(); ++d) {
    inverse[static_cast<std::size_t>(sources[d])] = static_cast<std::int64_t>(d);
  }
  const Var kept = c.call("reshape", {c.cotangent(0)}, {{"shape", permuted(shape, sources, 1)}});
  if (shape.size() < 2) return {kept};
  return {c.call("permute", {kept}, {{"dims", inverse}})};
}

struct Named {
  std::string name, doc;
  std::vector<AttrDef> attrs;
  std::vector<Sample> samples;
  OpDef::ViewOrder order = OpDef::ViewOrder::kOther;
};

void add_order(OpTable& table, Named named, Sources sources_of) {
  table.must_add(
      {.name = std::move(named.name),
       .doc = std::move(named.doc),
       .args = {in("self")},
       .attrs = std::move(named.attrs),
       .rule = "",
       .kernel =
           [sources_of](KernelCall& call) {
             const Array& x = call.inputs[0];
             const auto sources = value_or_throw(sources_of(x.shape().size(), call.attrs));
             call.outputs[0] = x.as_strided(permuted(x.shape(), sources, 1),
                                            permuted(x.strides(), sources, 0), x.offset());
           },
       .infer = [sources_of](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_ASSIGN_OR_RETURN(const auto sources, sources_of(inputs[0].shape.size(), attrs));
         return std::vector<TensorMeta>{{permuted(inputs[0].shape, sources, 1), inputs[0].dtype}};
       },
       .gradient = [sources_of](GradContext& c) { return order_gradient(c, sources_of); },
       .strategies = [sources_of](Specs inputs, std::span<const TensorMeta> outputs,
                                  const Attrs& attrs) -> Strategies {
         TSR_ASSIGN_OR_RETURN(const auto sources,
                              sources_of(inputs[0]->global_shape().size(), attrs));
         return ops::dim_map_strategies(*inputs[0], outputs[0], sources);
       },
       .is_view = true,
       .view_order = named.order,
       .samples = std::move(named.samples)});
}

void add_orders(OpTable& table) {
  const std::vector<AttrDef> places = {ops::ints_attr("source"), ops::ints_attr("destination")};
  const std::vector<Sample> moves = {
      {.shapes = {{8, 6}}, .attrs = {{"source", Shape{0}}, {"destination", Shape{-1}}}},
      {.shapes = {{5, 3, 8}}, .attrs = {{"source", Shape{2, 0}}, {"destination", Shape{0, 1}}}}};
  add_order(table,
            {"movedim", "Dims `source` at the places `destination`, the others in their order.",
             places, moves},
            moved);
  add_order(table, {"moveaxis", "movedim under its other name.", places, moves}, moved);
  add_order(table,
            {"swapaxes",
             "Two dims swapped.",
             {ops::int_attr("axis0"), ops::int_attr("axis1")},
             {{.shapes = {{8, 6}}, .attrs = {{"axis0", 0}, {"axis1", 1}}},
              {.shapes = {{5, 3, 8}}, .attrs = {{"axis0", -1}, {"axis1", 0}}}}},
            swapped);
  add_order(table,
            {"swapdims",
             "Two dims swapped.",
             {ops::int_attr("dim0"), ops::int_attr("dim1")},
             {{.shapes = {{8, 6}}, .attrs = {{"dim0", 0}, {"dim1", 1}}},
              {.shapes = {{5, 3, 8}}, .attrs = {{"dim0", -1}, {"dim1", 0}}}}},
            swapped);
  const std::vector<Sample> plain = {{.shapes = {{8, 6}}}, {.shapes = {{5}}}};
  add_order(table, {"t", "The transpose of a matrix; fewer dims stay.", {}, plain}, transposed);
  add_order(
      table,
      {"mT", "The last two dims swapped.", {}, {{.shapes = {{8, 6}}}, {.shapes = {{5, 3, 2}}}}},
      last_two_swapped);
  constexpr auto kKept = OpDef::ViewOrder::kRowMajor;
  add_order(table, {"atleast_1d", "With a dim, where there is none.", {}, plain, kKept},
            at_least<1>);
  add_order(table, {"atleast_2d", "With leading dims of size 1 up to two.", {}, plain, kKept},
            at_least<2>);
  add_order(table,
            {"atleast_3d",
             "With dims of size 1 up to three: in front, and behind one or two.",
             {},
             plain,
             kKept},
            at_least<3>);
}

// ---- expand_as ----

void add_expand_as(OpTable& table) {
  table.must_add(
      {.name = "expand_as",
       .doc = "self's dims of size 1 repeated without a copy to other's sizes.",
       .args = {in("self"), in("other")},
       .rule = "*, * -> * | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             call.outputs[0] = ops::broadcast_view(call.inputs[0], call.inputs[1].shape());
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
         const auto both = ops::broadcast(inputs[0].shape, inputs[1].shape);
         if (both.ok() && *both == inputs[1].shape) {
           return std::vector<TensorMeta>{{*both, inputs[0].dtype}};
         }
         return invalid_argument("self " + to_string(inputs[0].shape) +
                                 " does not expand to other " + to_string(inputs[1].shape));
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.sum_to(c.cotangent(0), c.input_shape(0)), Var{}};
       },
       .is_view = true,
       .samples = {{.shapes = {{8, 6}, {7, 8, 6}}}, {.shapes = {{5, 1}, {5, 3}}}}});
}

// ---- unfold ----

struct Windows {
  int dim = 0;
  std::int64_t size = 0, step = 1;

  std::int64_t count(std::int64_t length) const { return (length - size) / step + 1; }
};

StatusOr<Windows> windows_of(const Attrs& attrs, const Shape& shape) {
  Windows windows{.size = attrs.get_int("size"), .step = attrs.get_int("step")};
  TSR_ASSIGN_OR_RETURN(windows.dim,
                       ops::dim_attr(attrs, static_cast<int>(shape.size()), "dimension"));
  const std::int64_t length = shape[static_cast<std::size_t>(windows.dim)];
  if (windows.size >= 1 && windows.size <= length && windows.step >= 1) return windows;
  return invalid_argument("size " + std::to_string(windows.size) + " must lie in [1, " +
                          std::to_string(length) + "] and step " + std::to_string(windows.step) +
                          " be at least 1");
}

/// `count` windows from the start of the dim.
Array unfolded(const Array& x, const Windows& windows, std::int64_t count) {
  const auto d = static_cast<std::size_t>(windows.dim);
  Shape shape = x.shape(), strides = x.strides();
  shape[d] = count;
  shape.push_back(windows.size);
  strides.push_back(strides[d]);
  if (count > 1) strides[d] *= windows.step;  // a step that nobody takes may be any
  return x.as_strided(shape, strides, x.offset());
}

std::vector<LoweringStep> unfold_steps(const Attrs& attrs) {
  const std::int64_t size = attrs.get_int("size"), step = attrs.get_int("step");
  const int dim = static_cast<int>(attrs.get_int("dimension"));
  const WindowFn windows = [size, step, dim](const Attrs&, const OperandView&,
                                             const OperandView& result) {
    std::vector<Interval> needed = held_part(result, dim).held;
    for (Interval& each : needed) each = {each.start * step, (each.stop - 1) * step + size};
    return needed;
  };
  return ops::window_steps({1, 1}, dim, windows, [size, step, dim](KernelCall& call) {
    const Array& out = call.outputs[0];
    if (out.num_elements() == 0) return;
    kernels::copy(call.ctx, unfolded(call.inputs[1], {dim, size, step}, out.size(dim)), out);
  });
}

void add_unfold(OpTable& table) {
  const std::vector<AttrDef> attrs = {ops::int_attr("dimension"), ops::int_attr("size"),
                                      ops::int_attr("step")};
  table.must_add(
      {.name = "unfold",
       .doc = "Windows of `size` elements of a dim, `step` apart, as a new last dim.",
       .args = {in("self")},
       .attrs = attrs,
       .rule = "*f@dimension -> *fK | f~ | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array& x = call.inputs[0];
             const auto windows = value_or_throw(windows_of(call.attrs, x.shape()));
             call.outputs[0] = unfolded(x, windows, windows.count(x.size(windows.dim)));
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& given) -> Metas {
         TensorMeta out = inputs[0];
         TSR_ASSIGN_OR_RETURN(const Windows windows, windows_of(given, out.shape));
         std::int64_t& length = out.shape[static_cast<std::size_t>(windows.dim)];
         length = windows.count(length);
         out.shape.push_back(windows.size);
         return std::vector<TensorMeta>{out};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const auto windows = value_or_throw(windows_of(c.attrs(), c.input_shape(0)));
         return {c.call("unfold_backward", {c.cotangent(0)},
                        {{"dimension", std::int64_t{windows.dim}},
                         {"step", windows.step},
                         {"length", c.input_shape(0)[static_cast<std::size_t>(windows.dim)]}})};
       },
       .localize =
           [](const Attrs& given, std::span<const Spec> inputs, std::span<const Spec>,
              const Coord&) {
             Attrs local = given;
             local.set("dimension", std::int64_t{value_or_throw(normalize_dim(
                                        given.get_int("dimension"), inputs[0].ndim()))});
             return local;
           },
       .lowerings = {{"f", "each rank fetches what its windows cover", unfold_steps,
                      Lowering::Cut::kIntervals}},
       .is_view = true,
       .view_order = OpDef::ViewOrder::kOverlapping,
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dimension", 0}, {"size", 3}, {"step", 1}}},
                   {.shapes = {{5, 9}}, .attrs = {{"dimension", 1}, {"size", 2}, {"step", 3}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dimension", -2}, {"size", 4}, {"step", 2}}}}});
}

void add_unfold_backward(OpTable& table) {
  table.must_add(
      {.name = "unfold_backward",
       .doc = "Cotangent of unfold's operand: windows added up where they lie. `dimension` "
              "counts from the front, as grad has a dim more than the result.",
       .args = {in("grad")},
       .attrs = {ops::int_attr("dimension").at_least(0), ops::int_attr("step").at_least(1),
                 ops::int_attr("length")},
       .rule = "*kf@dimension -> *K@dimension | k! f! | lin A",
       .kernel =
           [](KernelCall& call) {
             const Array& grad = call.inputs[0];
             const Array& out = call.outputs[0];
             const int dim = ops::kernel_dim(call, out, "dimension");
             const std::int64_t step = call.attrs.get_int("step");
             kernels::fill(call.ctx, 0.0, out);
             for (std::int64_t w = 0; w < grad.size(dim); ++w) {
               const Array window = grad.slice(dim, w, w + 1).transpose(dim, grad.ndim() - 1);
               const Array part = window.as_strided(
                   Shape(window.shape().begin(), window.shape().end() - 1),
                   Shape(window.strides().begin(), window.strides().end() - 1), window.offset());
               const Array target = out.slice(dim, w * step, w * step + part.size(dim));
               kernels::binary(call.ctx, kernels::Binary::kAdd, target, part, target);
             }
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& given) -> Metas {
         TensorMeta out = inputs[0];
         const std::int64_t size = out.shape.size() < 2 ? 0 : out.shape.back();
         if (size == 0) {
           return invalid_argument("grad " + to_string(out.shape) +
                                   " has no windows in a last dim");
         }
         out.shape.pop_back();
         TSR_ASSIGN_OR_RETURN(
             const int dim, ops::dim_attr(given, static_cast<int>(out.shape.size()), "dimension"));
         std::int64_t& length = out.shape[static_cast<std::size_t>(dim)];
         // No windows at all, too, are those of a dim that could hold one.
         const CheckedInt steps = CheckedInt(std::max<std::int64_t>(1, length)) - 1;
         const CheckedInt covered = steps * given.get_int("step") + size;
         if (covered > given.get_int("length")) {
           return invalid_argument("windows cover " + std::to_string(covered.clamped()) +
                                   " elements, length is " +
                                   std::to_string(given.get_int("length")));
         }
         length = given.get_int("length");
         return std::vector<TensorMeta>{out};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         // A longer dim would hold further windows.
         const int dim = value_or_throw(normalize_dim(c.attrs().get_int("dimension"),
                                                      static_cast<int>(c.output_shape(0).size())));
         const Var all = c.call("unfold", {c.cotangent(0)},
                                {{"dimension", std::int64_t{dim}},
                                 {"size", c.input_shape(0).back()},
                                 {"step", c.attrs().get_int("step")}});
         const std::int64_t count = c.input_shape(0)[static_cast<std::size_t>(dim)];
         return {c.call("narrow", {all},
                        {{"dim", std::int64_t{dim}}, {"start", 0}, {"length", count}})};
       },
       .samples = {{.shapes = {{8, 6, 7}},
                    .attrs = {{"dimension", 0}, {"step", 1}, {"length", 14}}},
                   {.shapes = {{5, 3, 2}},
                    .attrs = {{"dimension", 1}, {"step", 1}, {"length", 5}}}}});
}

}  // namespace

void add_view_orders_ops(OpTable& table) {
  add_orders(table);
  add_expand_as(table);
  add_unfold(table);
  add_unfold_backward(table);
}

}  // namespace tessera
