// Padding and nearest-neighbour resampling: each position of a dim of the result is taken from one
// of the operand, or is a constant. Dims that keep their size are independent; where another is
// cut, each rank fetches exactly the positions that it takes.
#include <algorithm>
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/take_map.h"
#include "placement/checked_int.h"
#include "strategies/ops/call_rule.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/view/index_map.h"
#include "strategies/ops/window/window_parts.h"

namespace tessera {
namespace {

using Kind = ops::DimMap::Kind;
using Metas = StatusOr<std::vector<TensorMeta>>;
using ops::DimMap;
using ops::Places;

constexpr int kLoweredDims = 3;
constexpr std::string_view kLetters = "zyxwvutsrqponmlk";  // of dims, the last one first
constexpr auto kMostDims = static_cast<int>(kLetters.size());

/// How the last dims' positions are taken.
struct TakeForm {
  Kind kind = Kind::kConstant;
  std::string_view attr = "padding";  ///< the list that says how much
  int num_dims = 0;                   ///< that it must speak of; 0: any

  bool nearest() const { return kind == Kind::kNearest; }
};

/// How many dims, from the last on, the call maps.
int num_mapped(const TakeForm& form, const Attrs& attrs) {
  return form.num_dims != 0 ? form.num_dims
                            : static_cast<int>(attrs.get_ints(form.attr).size() / 2);
}

/// The mapped dims of an operand of `shape`, the last one first. The list has (before, after) for
/// each, in this order, or the new sizes.
ops::MappedDims maps_of(const TakeForm& form, const Attrs& attrs, const Shape& shape) {
  const Shape list = attrs.get_ints(form.attr);
  const int count = num_mapped(form, attrs);
  ops::MappedDims maps;
  for (int place = 0; place < count; ++place) {
    const int dim = static_cast<int>(shape.size()) - 1 - place;
    const std::int64_t size = shape[static_cast<std::size_t>(dim)];
    const auto at = static_cast<std::size_t>(2 * place);
    const std::int64_t before = form.nearest() ? 0 : list[at];
    const std::int64_t out_size = form.nearest()
                                      ? ops::window_attr(attrs, form.attr, count - 1 - place, 1)
                                      : (CheckedInt(size) + before + list[at + 1]).clamped();
    maps.push_back({dim, {form.kind, before, size, out_size}});
  }
  return maps;
}

bool keeps(const DimMap& map) { return map.before == 0 && map.size == map.out_size; }

/// Ascending, each once, without −1.
Places distinct(Places places) {
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  if (!places.empty() && places.front() < 0) places.erase(places.begin());
  return places;
}

std::vector<Interval> intervals_of(const Places& ascending) {
  std::vector<Interval> intervals;
  for (const std::int64_t place : ascending) {
    if (!intervals.empty() && intervals.back().stop == place) {
      ++intervals.back().stop;
    } else {
      intervals.push_back({place, place + 1});
    }
  }
  return intervals;
}

/// Result positions that are taken from any of `ins`.
Places takers_of(const DimMap& map, Interval ins) {
  Places takers;
  for (std::int64_t o = 0; o < map.out_size; ++o) {
    const std::int64_t source = map.source(o);
    if (source >= ins.start && source < ins.stop) takers.push_back(o);
  }
  return takers;
}

/// Places in a window of `held` positions instead of places in the whole dim.
Places relative(const Places& places, const Places& held) {
  Places result;
  for (const std::int64_t place : places) {
    const auto at = std::lower_bound(held.begin(), held.end(), place);
    result.push_back(place < 0 ? -1 : at - held.begin());
  }
  return result;
}

/// The shape of a call's first operand or result in the whole tensor: a dim that the call keeps may
/// be cut.
const Shape& whole_shape(std::span<const OperandView> views, const Array& local) {
  const bool whole = views.empty() || views[0].spec == nullptr;
  return whole ? local.shape() : views[0].spec->global_shape();
}

/// The places of one dim.
struct DimPlaces {
  int dim = -1;
  Places places;
};
/// What a call does along one dim: it takes, or adds up what goes back.
using Along = void (*)(KernelCall& call, const Array& x, const DimPlaces& taken, const Array& out);

void take(KernelCall& call, const Array& x, const DimPlaces& taken, const Array& out) {
  const double value = call.attrs.get_double_or("value", 0.0);
  kernels::take_map(call.ctx, x, taken.dim, taken.places, value, out);
}
void add(KernelCall& call, const Array& x, const DimPlaces& taken, const Array& out) {
  kernels::add_map(call.ctx, x, taken.dim, taken.places, out);
}

/// Along each dim that is not kept in turn; the places of `cut` are given.
void run_along(KernelCall& call, const ops::MappedDims& maps, Along along, Array x,
               const DimPlaces& cut) {
  const Array& out = call.outputs[0];
  std::vector<DimPlaces> dims;
  for (const auto& [dim, map] : maps) {
    if (dim == cut.dim) {
      dims.push_back(cut);
    } else if (!keeps(map)) {
      dims.push_back({dim, map.sources({0, map.out_size})});
    }
  }
  if (dims.empty()) kernels::copy(call.ctx, x, out);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Shape shape = x.shape();
    shape[static_cast<std::size_t>(dims[i].dim)] = out.size(dims[i].dim);
    const Array next = i + 1 == dims.size() ? out : ops::scratch(call, shape, x.dtype());
    along(call, x, dims[i], next);
    x = next;
  }
}

void take_all(KernelCall& call, const TakeForm& form, const Array& x, const DimPlaces& cut) {
  const Shape& whole = whole_shape(call.input_views, x);
  run_along(call, maps_of(form, call.attrs, whole), take, x, cut);
}
/// The sums that go back; `call.attrs` has input_size.
void add_all(KernelCall& call, const TakeForm& form, const Array& grad, const DimPlaces& cut) {
  const Shape& whole = whole_shape(call.output_views, call.outputs[0]);
  run_along(call, maps_of(form, call.attrs, whole), add, grad, cut);
}

/// The map of the dim `place` places from the end of `whole`, the forward call's operand.
DimMap map_at(const TakeForm& form, const Attrs& attrs, const OperandView& whole, int place) {
  return maps_of(form, attrs, whole.spec->global_shape())[static_cast<std::size_t>(place)].map;
}
Interval held_at(const OperandView& view, int place) {
  return ops::local_interval(view, view.spec->ndim() - 1 - place);
}

std::vector<LoweringStep> take_steps(const TakeForm& form, int place) {
  const auto sources = [form, place](const Attrs& attrs, const OperandView& operand,
                                     const OperandView& result) {
    return map_at(form, attrs, operand, place).sources(held_at(result, place));
  };
  const WindowFn windows = [sources](const Attrs& attrs, const OperandView& operand,
                                     const OperandView& result) {
    return intervals_of(distinct(sources(attrs, operand, result)));
  };
  return ops::window_steps({1, 1}, -1 - place, windows, [form, place, sources](KernelCall& call) {
    const Places needed = sources(call.attrs, call.input_views[0], call.output_views[0]);
    const Array& fetched = call.inputs[1];
    take_all(call, form, fetched, {fetched.ndim() - 1 - place, relative(needed, distinct(needed))});
  });
}

std::vector<LoweringStep> add_steps(const TakeForm& form, int place) {
  const WindowFn windows = [form, place](const Attrs& attrs, const OperandView&,
                                         const OperandView& result) {
    return intervals_of(takers_of(map_at(form, attrs, result, place), held_at(result, place)));
  };
  return ops::window_steps({1, 1}, -1 - place, windows, [form, place](KernelCall& call) {
    const OperandView& result = call.output_views[0];
    const DimMap map = map_at(form, call.attrs, result, place);
    const Interval own = held_at(result, place);
    Places places;
    for (const std::int64_t o : takers_of(map, own)) places.push_back(map.source(o) - own.start);
    const Array& fetched = call.inputs[1];
    add_all(call, form, fetched, {fetched.ndim() - 1 - place, std::move(places)});
  });
}

using StepsOf = std::vector<LoweringStep> (*)(const TakeForm&, int place);

std::vector<Lowering> lowerings(const TakeForm& form, StepsOf steps) {
  std::vector<Lowering> all;
  for (int place = 0; place < kLoweredDims; ++place) {
    all.push_back({std::string(1, kLetters[static_cast<std::size_t>(place)]),
                   "each rank fetches the positions that it takes",
                   [form, place, steps](const Attrs&) { return steps(form, place); },
                   Lowering::Cut::kIntervals});
  }
  return all;
}

/// `whole` is the operand of the forward call.
std::string dims_rule(const TakeForm& form, const Attrs& attrs, const Shape& whole) {
  if (whole.empty()) return "* -> *";  // a rule has no letter for no dim
  std::string letters(kLetters.substr(0, whole.size()));
  std::reverse(letters.begin(), letters.end());
  std::string marks;
  for (const auto& [dim, map] : maps_of(form, attrs, whole)) {
    if (keeps(map)) continue;
    marks += (marks.empty() ? " | " : " ") + letters.substr(static_cast<std::size_t>(dim), 1) + "~";
  }
  return letters + " -> " + letters + marks;
}

bool has_value(const TakeForm& form) { return form.kind == Kind::kConstant; }

Status check_entries(const TakeForm& form, const DimMap& map) {
  const CheckedInt after = CheckedInt(map.out_size) - map.size - map.before;
  bool fits = map.out_size >= (form.nearest() ? 1 : 0) && (has_value(form) || map.size > 0);
  if (form.kind == Kind::kReflect) fits = fits && map.before < map.size && after < map.size;
  if (form.kind == Kind::kCircular) fits = fits && map.before <= map.size && after <= map.size;
  fits = fits && (has_value(form) || form.nearest() || (map.before >= 0 && after >= 0));
  if (fits) return absl::OkStatus();
  return invalid_argument(
      "a dim of " + std::to_string(map.size) + " cannot become " + std::to_string(map.out_size) +
      (form.kind == Kind::kReflect    ? "; a reflection is shorter than the dim"
       : form.kind == Kind::kCircular ? "; a circular padding is at most as long as the dim"
                                      : ""));
}

Infer infer_taken(const TakeForm& form) {
  return [form](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    TensorMeta out = inputs[0];
    const Shape list = attrs.get_ints(form.attr);
    const auto wanted =
        static_cast<std::size_t>(form.nearest() ? form.num_dims : 2 * form.num_dims);
    const bool counted = form.num_dims != 0 ? list.size() == wanted : list.size() % 2 == 0;
    if (!counted || num_mapped(form, attrs) > static_cast<int>(out.shape.size())) {
      return invalid_argument(std::string(form.attr) + " " + to_string(list) + " for " +
                              to_string(out.shape) + "; need " +
                              (form.nearest() ? "one size for each of the last dims"
                                              : "(before, after) for each of the last dims"));
    }
    for (const auto& [dim, map] : maps_of(form, attrs, inputs[0].shape)) {
      TSR_RETURN_IF_ERROR(check_entries(form, map));
      out.shape[static_cast<std::size_t>(dim)] = map.out_size;
    }
    return std::vector<TensorMeta>{out};
  };
}

std::string linearity(const TakeForm& form) {
  if (!has_value(form)) return " | lin A | mono A | prod A";
  return " | lin A if value==0 | aff A | mono A | prod A if value==0 | prod A if value==1";
}

StrategyFn take_strategies(const TakeForm& form, std::string name) {
  return [form, name](std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs,
                      const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    const std::string dims = dims_rule(form, attrs, inputs[0]->global_shape());
    return ops::strategies_of_rule({name, dims + linearity(form), lowerings(form, take_steps)},
                                   inputs, outputs, attrs);
  };
}

StrategyFn add_strategies(const TakeForm& form, std::string name) {
  return [form, name](std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs,
                      const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    const std::string dims = dims_rule(form, attrs, outputs[0].shape);
    // A constant's gradient takes; the others add up.
    const std::string text = has_value(form) ? " | lin A | mono A | prod A" : " | lin A";
    return ops::strategies_of_rule({name, dims + text, lowerings(form, add_steps)}, inputs, outputs,
                                   attrs);
  };
}

std::vector<Sample> samples_of(const TakeForm& form) {
  const auto sample = [&](Shape shape, Shape list) {
    return Sample{.shapes = {std::move(shape)}, .attrs = {{form.attr, std::move(list)}}};
  };
  const bool nearest = form.nearest();
  if (form.num_dims == 1) {
    return {sample({7, 6}, nearest ? Shape{9} : Shape{2, 1}),
            sample({2, 3}, nearest ? Shape{5} : Shape{1, 2}),
            sample({3, 5}, nearest ? Shape{5} : Shape{0, 0})};
  }
  if (form.num_dims == 2) {
    return {sample({6, 7, 6}, nearest ? Shape{9, 8} : Shape{2, 1, 1, 3}),
            sample({2, 5, 3}, nearest ? Shape{7, 6} : Shape{0, 1, 2, 0}),
            sample({2, 5, 3}, nearest ? Shape{5, 6} : Shape{0, 0, 2, 0})};
  }
  std::vector<Sample> samples = {sample({7, 6}, {2, 1, 1, 3}), sample({2, 5, 3}, {1, 2}),
                                 sample({5, 3}, {0, 0, 2, 1})};
  if (has_value(form)) {
    samples[1].attrs.set("value", 1.0);
    samples[2].attrs.set("value", -0.5);
    samples.push_back(sample({8, 3}, {0, 0, -2, 1}));
    samples.push_back({.shapes = {{6, 8}},
                       .attrs = {{form.attr, Shape{1, 1}}, {"value", 2.0}},
                       .dtypes = {DType::kI64},
                       .below = {9},
                       .differentiable = false});
  }
  return samples;
}

std::vector<Sample> grad_samples_of(const TakeForm& form) {
  std::vector<Sample> samples;
  for (Sample& sample : samples_of(form)) {
    if (!sample.dtypes.empty()) continue;
    const TensorMeta whole{sample.shapes[0], DType::kF64};
    const Shape out = value_or_throw(infer_taken(form)({&whole, 1}, sample.attrs))[0].shape;
    Attrs attrs = {{form.attr, sample.attrs.get_ints(form.attr)}};
    attrs.set("input_size", whole.shape);
    samples.push_back({.shapes = {out}, .attrs = std::move(attrs)});
  }
  return samples;
}

/// Positions fit 64 bits, whatever stands before and after.
AttrDef list_attr(const TakeForm& form) {
  const std::int64_t least = form.nearest() ? 1 : -kMaxTensorBytes;
  return ops::ints_attr(std::string(form.attr)).between(least, kMaxTensorBytes);
}

void add_family(OpTable& table, const TakeForm& form, const std::string& name, std::string doc) {
  OpDef def{.name = name, .doc = std::move(doc), .args = {in("self").dims(0, kMostDims)}};
  def.attrs = {list_attr(form)};
  if (has_value(form)) def.attrs.push_back(ops::element_attr("value", 0.0));
  def.kernel = [form](KernelCall& call) { take_all(call, form, call.inputs[0], {}); };
  def.infer = infer_taken(form);
  def.gradient = [form, name](GradContext& c) -> std::vector<Var> {
    Attrs attrs = {{form.attr, c.attrs().get_ints(form.attr)}};
    attrs.set("input_size", c.input_shape(0));
    return {c.call(name + "_grad", {c.cotangent(0)}, attrs)};
  };
  def.strategies = take_strategies(form, name);
  def.lowerings = lowerings(form, take_steps);
  def.samples = samples_of(form);
  table.must_add(std::move(def));

  OpDef grad{.name = name + "_grad",
             .doc = "Cotangent of " + name + ".",
             .args = {in("grad").floating().dims(0, kMostDims)}};
  grad.attrs = {list_attr(form), ops::ints_attr("input_size")};
  grad.kernel = [form](KernelCall& call) { add_all(call, form, call.inputs[0], {}); };
  grad.infer = [form](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    const TensorMeta whole{attrs.get_ints("input_size"), inputs[0].dtype};
    TSR_RETURN_IF_ERROR(ops::check_cotangent(infer_taken(form), {&whole, 1}, attrs, inputs[0]));
    return std::vector<TensorMeta>{whole};
  };
  grad.strategies = add_strategies(form, name + "_grad");
  grad.lowerings = lowerings(form, add_steps);
  grad.samples = grad_samples_of(form);
  table.must_add(std::move(grad));
}

}  // namespace

void add_pad_ops(OpTable& table) {
  add_family(table, {Kind::kConstant, "pad", 0}, "constant_pad_nd",
             "`value` before and after the last dims; a negative padding takes away.");
  add_family(table, {Kind::kCircular, "pad", 0}, "_pad_circular",
             "The last dims continued as if they were circles.");
  for (const int num_dims : {1, 2}) {
    const std::string dims = std::to_string(num_dims) + "d";
    add_family(table, {Kind::kReflect, "padding", num_dims}, "reflection_pad" + dims,
               "The last dims continued by their mirror image, without the border itself.");
    add_family(table, {Kind::kReplicate, "padding", num_dims}, "replication_pad" + dims,
               "The last dims continued by their border elements.");
    add_family(table, {Kind::kNearest, "output_size", num_dims}, "upsample_nearest" + dims,
               "The last dims in other sizes: each position takes the nearest one before it.");
  }
}

}  // namespace tessera
