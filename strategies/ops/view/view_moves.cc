// Elements moved along dims: roll, flip, rot90; and repeated: repeat, tile, repeat_interleave.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/view/index_map.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Strategies = StatusOr<std::vector<Strategy>>;
using Kind = ops::DimMap::Kind;
using Maps = StatusOr<ops::MappedDims>;

/// The dims listed, in order, from the front, each once.
StatusOr<std::vector<int>> listed_dims(const Attrs& attrs, std::size_t ndim) {
  std::vector<int> dims;
  for (const std::int64_t each : attrs.get_ints("dims")) {
    if (ndim == 0 && (each == 0 || each == -1)) continue;  // a scalar's only dim
    TSR_ASSIGN_OR_RETURN(const int dim, normalize_dim(each, static_cast<int>(ndim)));
    if (std::find(dims.begin(), dims.end(), dim) != dims.end()) {
      return invalid_argument("dims " + to_string(attrs.get_ints("dims")) + " lists a dim twice");
    }
    dims.push_back(dim);
  }
  return dims;
}

// ---- roll ----

Metas infer_roll(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(listed_dims(attrs, inputs[0].shape.size()).status());
  if (attrs.get_ints("shifts").size() != attrs.get_ints("dims").size()) {
    return invalid_argument("shifts " + to_string(attrs.get_ints("shifts")) + " and dims " +
                            to_string(attrs.get_ints("dims")) + " must be as many");
  }
  return std::vector<TensorMeta>{inputs[0]};
}

Maps roll_map(const Attrs& attrs, const Shape& shape) {
  TSR_ASSIGN_OR_RETURN(const auto dims, listed_dims(attrs, shape.size()));
  const Shape shifts = attrs.get_ints("shifts");
  ops::MappedDims maps;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = shape[static_cast<std::size_t>(dims[i])];
    maps.push_back({dims[i], {Kind::kCircular, shifts[i], size, size}});
  }
  return maps;
}

void add_roll(OpTable& table) {
  OpDef roll = {
      .name = "roll",
      .doc =
          "Elements shifted along the dims listed; what leaves at the end comes back "
          "at the start.",
      .args = {in("self")},
      .attrs = {ops::ints_attr("shifts").between(-kMaxTensorBytes, kMaxTensorBytes),
                ops::ints_attr("dims")},
      .rule = "",
      .infer = infer_roll,
      .gradient = [](GradContext& c) -> std::vector<Var> {
        Shape back = c.attrs().get_ints("shifts");
        for (std::int64_t& shift : back) shift = -shift;
        return {c.call("roll", {c.cotangent(0)},
                       {{"shifts", back}, {"dims", c.attrs().get_ints("dims")}})};
      },
      .samples = {{.shapes = {{8, 6}}, .attrs = {{"shifts", Shape{3, -2}}, {"dims", Shape{0, 1}}}},
                  {.shapes = {{5, 3}}, .attrs = {{"shifts", Shape{7}}, {"dims", Shape{-2}}}}}};
  ops::use_index_map(roll, roll_map);
  table.must_add(std::move(roll));
}

// ---- flip ----

/// The dims given, backwards.
ops::MappedDims backwards(const std::vector<int>& dims, const Shape& shape) {
  ops::MappedDims maps;
  for (const int dim : dims) {
    const std::int64_t size = shape[static_cast<std::size_t>(dim)];
    maps.push_back({dim, {Kind::kBackwards, 0, size, size}});
  }
  return maps;
}

Maps flip_map(const Attrs& attrs, const Shape& shape) {
  TSR_ASSIGN_OR_RETURN(const auto dims, listed_dims(attrs, shape.size()));
  return backwards(dims, shape);
}

void add_flip(OpTable& table) {
  OpDef flip = {.name = "flip",
                .doc = "The dims listed backwards.",
                .args = {in("self")},
                .attrs = {ops::ints_attr("dims")},
                .rule = "",
                .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
                  TSR_RETURN_IF_ERROR(listed_dims(attrs, inputs[0].shape.size()).status());
                  return std::vector<TensorMeta>{inputs[0]};
                },
                .gradient = [](GradContext& c) -> std::vector<Var> {
                  return {c.call("flip", {c.cotangent(0)}, c.attrs())};
                },
                .samples = {{.shapes = {{8, 6}}, .attrs = {{"dims", Shape{0, 1}}}},
                            {.shapes = {{5, 3}}, .attrs = {{"dims", Shape{-2}}}}}};
  ops::use_index_map(flip, flip_map);
  table.must_add(std::move(flip));
}

// ---- rot90 ----

int turns(const Attrs& attrs) { return static_cast<int>((attrs.get_int("k") % 4 + 4) % 4); }

/// Only a dim that is turned round must be whole.
Strategies rot90_strategies(std::span<const Spec* const> inputs,
                            std::span<const TensorMeta> outputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto dims, listed_dims(attrs, inputs[0]->global_shape().size()));
  Layout in = inputs[0]->layout();
  const int k = turns(attrs);
  const auto first = static_cast<std::size_t>(dims[0]), second = static_cast<std::size_t>(dims[1]);
  if (k == 1 || k == 2) in.dims[second].clear();
  if (k == 2 || k == 3) in.dims[first].clear();
  Layout out = in;
  if (k % 2 == 1) std::swap(out.dims[first], out.dims[second]);
  TSR_ASSIGN_OR_RETURN(
      Strategy strategy,
      ops::laid_out(inputs, in, outputs, out, "dims that are not turned round keep their cuts"));
  return std::vector<Strategy>{std::move(strategy)};
}

void add_rot90(OpTable& table) {
  table.must_add(
      {.name = "rot90",
       .doc = "The plane of two dims turned by k right angles, from the first towards the second.",
       .args = {in("self")},
       .attrs = {ops::int_attr("k", 1), ops::ints_attr("dims")},
       .rule = "",
       .kernel =
           [](KernelCall& call) {
             const Array& x = call.inputs[0];
             const auto dims = value_or_throw(listed_dims(call.attrs, x.shape().size()));
             const int k = turns(call.attrs);
             std::vector<int> flipped;
             if (k == 1 || k == 2) flipped.push_back(dims[1]);
             if (k == 2 || k == 3) flipped.push_back(dims[0]);
             const Array mirrored = ops::mapped(call, x, backwards(flipped, x.shape()));
             kernels::copy(call.ctx, k % 2 == 1 ? mirrored.transpose(dims[0], dims[1]) : mirrored,
                           call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_ASSIGN_OR_RETURN(const auto dims, listed_dims(attrs, inputs[0].shape.size()));
         if (dims.size() != 2) {
           return invalid_argument("dims " + to_string(attrs.get_ints("dims")) +
                                   " must name two dims");
         }
         TensorMeta out = inputs[0];
         if (turns(attrs) % 2 == 1) {
           std::swap(out.shape[static_cast<std::size_t>(dims[0])],
                     out.shape[static_cast<std::size_t>(dims[1])]);
         }
         return std::vector<TensorMeta>{out};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         return {c.call(
             "rot90", {c.cotangent(0)},
             {{"k", std::int64_t{-turns(c.attrs())}}, {"dims", c.attrs().get_ints("dims")}})};
       },
       .strategies = rot90_strategies,
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dims", Shape{0, 1}}}},
                   {.shapes = {{6, 7, 8}}, .attrs = {{"k", 2}, {"dims", Shape{1, 2}}}},
                   {.shapes = {{5, 2, 3}}, .attrs = {{"k", -1}, {"dims", Shape{2, 0}}}}}});
}

// ---- repeat, tile ----

/// How often each dim of the result repeats: as many as the result has dims.
StatusOr<Shape> repeats_of(const Attrs& attrs, std::size_t ndim) {
  const bool tile = attrs.has("dims");
  Shape repeats = attrs.get_ints(tile ? "dims" : "repeats");
  if (tile && repeats.size() < ndim) repeats.insert(repeats.begin(), ndim - repeats.size(), 1);
  bool good = repeats.size() >= ndim;
  for (const std::int64_t each : repeats) good = good && each >= 0;
  if (good) return repeats;
  return invalid_argument("repeats " + to_string(repeats) +
                          " must not be negative, one for each "
                          "of at least " +
                          std::to_string(ndim) + " dims");
}

Metas infer_repeat(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const Shape repeats, repeats_of(attrs, out.shape.size()));
  out.shape.insert(out.shape.begin(), repeats.size() - out.shape.size(), 1);
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    out.shape[d] = (CheckedInt(out.shape[d]) * repeats[d]).clamped();
  }
  return std::vector<TensorMeta>{out};
}

Maps repeat_map(const Attrs& attrs, const Shape& shape) {
  TSR_ASSIGN_OR_RETURN(const Shape repeats, repeats_of(attrs, shape.size()));
  const std::size_t lead = repeats.size() - shape.size();
  ops::MappedDims maps;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (repeats[lead + d] == 1) continue;
    const std::int64_t out_size = (CheckedInt(shape[d]) * repeats[lead + d]).clamped();
    maps.push_back({static_cast<int>(d), {Kind::kCircular, 0, shape[d], out_size}});
  }
  return maps;
}

/// The sum over all copies: the cotangent seen as (repeats, size) on each dim.
std::vector<Var> repeat_gradient(GradContext& c) {
  const Shape& shape = c.input_shape(0);
  const Shape repeats = value_or_throw(repeats_of(c.attrs(), shape.size()));
  const std::size_t lead = repeats.size() - shape.size();
  Shape split, copies;
  if (num_elements(shape) == 0) return {c.call("new_zeros", {c.cotangent(0)}, {{"size", shape}})};
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    const bool repeated = d < lead || repeats[d] != 1;  // others need no dim more
    if (repeated) copies.push_back(static_cast<std::int64_t>(split.size()));
    if (repeated) split.push_back(repeats[d]);
    if (d >= lead) split.push_back(shape[d - lead]);
  }
  if (copies.empty()) return {c.cotangent(0)};
  const Var parts = c.call("reshape", {c.cotangent(0)}, {{"shape", split}});
  return {c.call("sum", {parts}, {{"dim", copies}, {"keepdim", false}})};
}

void add_repeat(OpTable& table, std::string name, std::string attr, std::string doc) {
  const std::string_view key = attr == "dims" ? "dims" : "repeats";
  OpDef repeat = {.name = std::move(name),
                  .doc = std::move(doc),
                  .args = {in("self")},
                  .attrs = {ops::ints_attr(std::move(attr))},
                  .rule = "",
                  .infer = infer_repeat,
                  .gradient = repeat_gradient,
                  .samples = {{.shapes = {{8, 6}}, .attrs = {{key, Shape{1, 2}}}},
                              {.shapes = {{6, 7}}, .attrs = {{key, Shape{2, 3, 2}}}},
                              {.shapes = {{5, 3}}, .attrs = {{key, Shape{3, 1}}}}}};
  if (key == "dims") {
    repeat.samples.push_back({.shapes = {{5, 3}}, .attrs = {{key, Shape{2}}}});
  }
  ops::use_index_map(repeat, repeat_map);
  table.must_add(std::move(repeat));
}

// ---- repeat_interleave ----

/// No elements are cut in any way: cuts of stated sizes become plain ones.
void drop_sizes(Levels& levels) {
  for (Level& level : levels) {
    if (level.sizes) level = Level::of_axis(level.axis);
  }
}

/// Each cut of the dim falls on a multiple of the repeats.
StatusOr<Levels> stretched(Levels levels, std::int64_t repeats) {
  for (Level& level : levels) {
    if (level.sizes) {
      TSR_ASSIGN_OR_RETURN(level.sizes, level.sizes.scaled(repeats));
    } else if (level.kind == Level::Kind::kRun) {
      level.count *= repeats;
    } else {
      level.grain *= repeats;
    }
  }
  return levels;
}

void add_repeat_interleave(OpTable& table) {
  table.must_add(
      {.name = "repeat_interleave",
       .doc = "Each element of a dim `repeats` times, one after another; cuts of the dim stay.",
       .args = {in("self")},
       .attrs = {ops::int_attr("repeats").at_least(0), ops::int_attr("dim")},
       .rule = "",
       .kernel =
           [](KernelCall& call) {
             if (call.outputs[0].num_elements() == 0) return;
             const Array& x = call.inputs[0];
             const int dim = ops::kernel_dim(call, x);
             const ops::DimMap map = {Kind::kNearest, 0, x.size(dim), call.outputs[0].size(dim)};
             kernels::copy(call.ctx, ops::mapped(call, x, {{dim, map}}), call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TensorMeta out = inputs[0];
         TSR_ASSIGN_OR_RETURN(const int dim,
                              ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
         std::int64_t& size = out.shape[static_cast<std::size_t>(dim)];
         size = (CheckedInt(size) * attrs.get_int("repeats")).clamped();
         return std::vector<TensorMeta>{out};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Shape& shape = c.input_shape(0);
         const int dim = value_or_throw(
             normalize_dim(c.attrs().get_int("dim"), static_cast<int>(shape.size())));
         if (num_elements(c.output_shape(0)) == 0) {
           return {c.call("new_zeros", {c.cotangent(0)}, {{"size", shape}})};
         }
         Shape split = shape;
         split.insert(split.begin() + dim + 1, c.attrs().get_int("repeats"));
         const Var parts = c.call("reshape", {c.cotangent(0)}, {{"shape", split}});
         return {
             c.call("sum", {parts}, {{"dim", Shape{std::int64_t{dim} + 1}}, {"keepdim", false}})};
       },
       .strategies = [](std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs,
                        const Attrs& attrs) -> Strategies {
         const Spec& input = *inputs[0];
         TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, input.ndim()));
         Layout layout = input.layout();
         Levels& levels = layout.dims[static_cast<std::size_t>(dim)];
         // No elements are cut in any way: grains of 1 will do.
         const std::int64_t repeats = std::max<std::int64_t>(1, attrs.get_int("repeats"));
         if (num_elements(outputs[0].shape) == 0) drop_sizes(levels);
         TSR_ASSIGN_OR_RETURN(levels, stretched(std::move(levels), repeats));
         TSR_ASSIGN_OR_RETURN(Spec out,
                              Spec::make(input.mesh(), outputs[0].shape, outputs[0].dtype, layout));
         return std::vector<Strategy>{
             {{input}, {std::move(out)}, "cuts fall on multiples of the repeats"}};
       },
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"repeats", 3}, {"dim", 0}}},
                   {.shapes = {{5, 3}}, .attrs = {{"repeats", 2}, {"dim", -1}}}}});
}

}  // namespace

void add_view_moves_ops(OpTable& table) {
  add_roll(table);
  add_flip(table);
  add_rot90(table);
  add_repeat(table, "repeat", "repeats",
             "The tensor repeated along each dim; further dims may lead.");
  add_repeat(table, "tile", "dims",
             "repeat, with 1 for the leading dims where the list is shorter.");
  add_repeat_interleave(table);
}

}  // namespace tessera
