// A dim cut into parts, as views; of a cut dim, each rank fetches its share of every part.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/view/index_map.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Strategies = StatusOr<std::vector<Strategy>>;

/// Sizes of the parts of a dim of `size`.
using PartsOf = StatusOr<Shape> (*)(const Attrs&, std::int64_t size);

/// Before so many are made.
Status check_count(std::int64_t count) {
  if (count <= OpDef::kMostResults) return absl::OkStatus();
  return invalid_argument(std::to_string(count) + " results; at most " +
                          std::to_string(OpDef::kMostResults) + " are allowed");
}

StatusOr<Shape> split_parts(const Attrs& attrs, std::int64_t size) {
  const std::int64_t each = attrs.get_int("split_size");
  if (each < 1) {
    return invalid_argument("split_size is " + std::to_string(each) + ", but must be at least 1");
  }
  TSR_RETURN_IF_ERROR(check_count(size / each));
  Shape parts;
  for (std::int64_t at = 0; at < size || parts.empty(); at += each) {
    parts.push_back(std::min(each, size - at));
  }
  return parts;
}

StatusOr<Shape> sizes_parts(const Attrs& attrs, std::int64_t size) {
  const Shape parts = attrs.get_ints("split_sizes");
  CheckedInt sum = 0;
  bool good = !parts.empty();
  for (const std::int64_t part : parts) {
    good = good && part >= 0;
    sum += part;
  }
  if (good && sum == size) return parts;
  return invalid_argument("split_sizes " + to_string(parts) +
                          " must not be negative and add up to " + std::to_string(size));
}

StatusOr<Shape> chunk_parts(const Attrs& attrs, std::int64_t size) {
  const std::int64_t chunks = attrs.get_int("chunks");
  if (chunks < 1) {
    return invalid_argument("chunks is " + std::to_string(chunks) + ", but must be at least 1");
  }
  const std::int64_t each = std::max<std::int64_t>(size / chunks + (size % chunks != 0), 1);
  return split_parts({{"split_size", each}}, size);
}

/// The first size % sections parts are one longer.
StatusOr<Shape> section_parts(const Attrs& attrs, std::int64_t size) {
  const std::int64_t sections = attrs.get_int("sections");
  if (sections < 1) {
    return invalid_argument("sections is " + std::to_string(sections) + ", but must be at least 1");
  }
  TSR_RETURN_IF_ERROR(check_count(sections));
  Shape parts;
  for (std::int64_t i = 0; i < sections; ++i) {
    parts.push_back(size / sections + (i < size % sections ? 1 : 0));
  }
  return parts;
}

template <PartsOf kParts>
StatusOr<Shape> parts_of(const Attrs& attrs, const Shape& shape, int& dim) {
  TSR_ASSIGN_OR_RETURN(dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  return kParts(attrs, shape[static_cast<std::size_t>(dim)]);
}

template <PartsOf kParts>
Metas infer_split(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  int dim = 0;
  TSR_ASSIGN_OR_RETURN(const Shape parts, parts_of<kParts>(attrs, inputs[0].shape, dim));
  std::vector<TensorMeta> out;
  for (const std::int64_t part : parts) {
    out.push_back(inputs[0]);
    out.back().shape[static_cast<std::size_t>(dim)] = part;
  }
  return out;
}

/// Set on a rank: sizes of the parts in the whole tensor.
constexpr std::string_view kPartSizes = "part_sizes";
/// Likewise: the axes that cut the dim, ascending.
constexpr std::string_view kPartAxes = "part_axes";

template <PartsOf kParts>
Attrs localize_split(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                     const Coord&) {
  Attrs local = attrs;
  int dim = 0;
  local.set(kPartSizes, value_or_throw(parts_of<kParts>(attrs, inputs[0].global_shape(), dim)));
  local.set("dim", std::int64_t{dim});
  const auto axes = ops::axes_of(inputs[0].layout().dims[static_cast<std::size_t>(dim)]);
  local.set(kPartAxes, Shape(axes.begin(), axes.end()));
  return local;
}

/// The dim is whole here: no cut of it reaches this kernel.
template <PartsOf kParts>
void run_split(KernelCall& call) {
  const Array& x = call.inputs[0];
  const int dim = ops::kernel_dim(call, x);
  const Shape parts = call.attrs.has(kPartSizes) ? call.attrs.get_ints(kPartSizes)
                                                 : value_or_throw(kParts(call.attrs, x.size(dim)));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    call.outputs[i] = x.slice(dim, start, start + parts[i]);
    start += parts[i];
  }
}

Strategies split_strategies(std::span<const Spec* const> inputs,
                            std::span<const TensorMeta> outputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim()));
  TSR_ASSIGN_OR_RETURN(auto found, ops::mapped_strategies(inputs, outputs, {dim}));
  found.front().why = "each rank fetches its share of every part";
  found.back().why = "the dim whole, all else as it is";
  return found;
}

/// A rank's share of the part [start, start + size) of the dim, cut by the operand's axes.
WindowFn share_of(const Levels& levels, std::int64_t start, std::int64_t size) {
  return [levels, start, size](const Attrs&, const OperandView&, const OperandView& result) {
    const Mesh& mesh = result.spec->mesh();
    std::vector<Interval> needed =
        local_intervals(mesh, size, canonical_levels(mesh, size, levels), *result.coord);
    for (Interval& each : needed) each = {each.start + start, each.stop + start};
    return needed;
  };
}

std::vector<LoweringStep> split_steps(const Attrs& attrs) {
  const Shape parts = attrs.get_ints(kPartSizes);
  Levels levels;
  for (const std::int64_t axis : attrs.get_ints(kPartAxes)) {
    levels.push_back(Level::of_axis(static_cast<int>(axis)));
  }
  ops::Steps steps(1, static_cast<int>(parts.size()));
  ops::Steps::Values shares;
  std::int64_t start = 0;
  for (const std::int64_t size : parts) {
    shares.push_back(steps.window(steps.operand(0), static_cast<int>(attrs.get_int("dim")),
                                  share_of(levels, start, size)));
    start += size;
  }
  steps.local(shares, steps.results(), [](KernelCall& call) {
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      kernels::copy(call.ctx, call.inputs[i], call.outputs[i]);
    }
  });
  return std::move(steps).take();
}

std::vector<Var> split_gradient(GradContext& c) {
  const int dim = value_or_throw(
      normalize_dim(c.attrs().get_int("dim"), static_cast<int>(c.input_shape(0).size())));
  const auto place = static_cast<std::size_t>(dim);
  const std::int64_t size = c.input_shape(0)[place];
  Var total;
  std::int64_t start = 0;
  for (int i = 0;; ++i) {
    if (start >= size) break;
    const std::int64_t length = c.output_shape(i)[place];
    if (c.cotangent(i).defined() && length > 0) {
      const Var part = c.call("slice_grad", {c.cotangent(i)},
                              {{"dim", std::int64_t{dim}}, {"start", start}, {"size", size}});
      total = total.defined() ? c.call("add", {total, part}) : part;
    }
    start += length;
  }
  return {total};
}

template <PartsOf kParts>
void add_parts(OpTable& table, std::string name, std::string doc, AttrDef attr,
               std::vector<Sample> samples) {
  table.must_add({.name = std::move(name),
                  .doc = std::move(doc),
                  .args = {in("self")},
                  .attrs = {std::move(attr), ops::int_attr("dim", 0)},
                  .rule = "",
                  .num_outputs = OpDef::kAsInferred,
                  .kernel = run_split<kParts>,
                  .infer = infer_split<kParts>,
                  .gradient = split_gradient,
                  .strategies = split_strategies,
                  .localize = localize_split<kParts>,
                  .lowerings = {{"d", "each rank fetches its share of every part", split_steps}},
                  .is_view = true,
                  .samples = std::move(samples)});
}

// ---- unbind ----

Strategies unbind_strategies(std::span<const Spec* const> inputs,
                             std::span<const TensorMeta> outputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim()));
  Layout whole = inputs[0]->layout();
  whole.dims[static_cast<std::size_t>(dim)].clear();
  Layout without = whole;
  without.dims.erase(without.dims.begin() + dim);
  TSR_ASSIGN_OR_RETURN(Strategy strategy, ops::laid_out(inputs, whole, outputs, without,
                                                        "the dim whole, all else as it is"));
  return std::vector<Strategy>{std::move(strategy)};
}

void add_unbind(OpTable& table) {
  table.must_add(
      {.name = "unbind",
       .doc = "The slices of a dim, which goes away; a cut dim is made whole first, as every rank "
              "holds every slice.",
       .args = {in("self")},
       .attrs = {ops::int_attr("dim", 0)},
       .rule = "",
       .num_outputs = OpDef::kAsInferred,
       .kernel =
           [](KernelCall& call) {
             const Array& x = call.inputs[0];
             const int dim = ops::kernel_dim(call, x);
             Shape shape = x.shape(), strides = x.strides();
             const std::int64_t step = strides[static_cast<std::size_t>(dim)];
             shape.erase(shape.begin() + dim);
             strides.erase(strides.begin() + dim);
             for (std::int64_t i = 0; i < x.size(dim); ++i) {
               call.outputs[static_cast<std::size_t>(i)] =
                   x.as_strided(shape, strides, x.offset() + (x.num_elements() > 0 ? i * step : 0));
             }
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TensorMeta out = inputs[0];
         TSR_ASSIGN_OR_RETURN(const int dim,
                              ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
         const std::int64_t count = out.shape[static_cast<std::size_t>(dim)];
         if (count == 0) {
           return invalid_argument("dim " + std::to_string(dim) + " of " +
                                   to_string(inputs[0].shape) + " is empty: there is no slice");
         }
         TSR_RETURN_IF_ERROR(check_count(count));
         out.shape.erase(out.shape.begin() + dim);
         return std::vector<TensorMeta>(static_cast<std::size_t>(count), out);
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const int dim = value_or_throw(
             normalize_dim(c.attrs().get_int("dim"), static_cast<int>(c.input_shape(0).size())));
         std::vector<Var> slices;
         const std::int64_t count = c.input_shape(0)[static_cast<std::size_t>(dim)];
         Var like;
         for (int i = 0; i < count && !like.defined(); ++i) like = c.cotangent(i);
         for (int i = 0; i < count; ++i) {
           const Var grad = c.cotangent(i);
           slices.push_back(grad.defined() ? grad : c.call("zeros_like", {like}));
         }
         return {c.call_all("stack", slices, {{"dim", std::int64_t{dim}}})[0]};
       },
       .strategies = unbind_strategies,
       .is_view = true,
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 0}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", -1}}}}});
}

}  // namespace

void add_view_split_ops(OpTable& table) {
  add_parts<split_parts>(table, "split", "Parts of split_size elements of a dim, the last shorter.",
                         ops::int_attr("split_size"),
                         {{.shapes = {{8, 6}}, .attrs = {{"split_size", 4}, {"dim", 1}}},
                          {.shapes = {{5, 3}}, .attrs = {{"split_size", 2}}}});
  add_parts<sizes_parts>(
      table, "split_with_sizes", "Parts of a dim of the sizes listed.",
      ops::ints_attr("split_sizes"),
      {{.shapes = {{8, 6}}, .attrs = {{"split_sizes", Shape{5, 3}}, {"dim", 0}}},
       {.shapes = {{5, 3}}, .attrs = {{"split_sizes", Shape{2, 1}}, {"dim", -1}}}});
  add_parts<chunk_parts>(table, "chunk", "At most `chunks` equal parts of a dim, the last shorter.",
                         ops::int_attr("chunks"),
                         {{.shapes = {{8, 6}}, .attrs = {{"chunks", 3}, {"dim", 0}}},
                          {.shapes = {{5, 3}}, .attrs = {{"chunks", 4}}}});
  add_parts<section_parts>(
      table, "tensor_split",
      "`sections` parts of a dim, the first ones longer by 1 where it does not "
      "divide.",
      ops::int_attr("sections"),
      {{.shapes = {{8, 6}}, .attrs = {{"sections", 3}, {"dim", 0}}},
       {.shapes = {{5, 3}}, .attrs = {{"sections", 4}}}});
  add_unbind(table);
}

}  // namespace tessera
