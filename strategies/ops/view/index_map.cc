#include "strategies/ops/view/index_map.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera::ops {
namespace {

constexpr std::size_t kMostMapped = 6;
/// Set in the local attributes: the mapped dims, from the end.
constexpr std::string_view kMapped = "moved_dims";

Array taken(KernelCall& call, const Array& x, const MappedDim& along) {
  const std::int64_t count = along.map.out_size;
  const Array places = Array::empty({count}, DType::kI64);
  along.map.sources({0, count}, {places.data<std::int64_t>(), static_cast<std::size_t>(count)});
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(along.dim)] = count;
  const Array out = scratch(call, shape, x.dtype());
  kernels::index_select(call.ctx, x, along.dim, to_device(call.ctx, places),
                        kernels::Absent::kError, out);
  return out;
}

/// What positions `own` of the result are taken from: in their order, or ascending if backwards.
std::vector<Interval> fetched_by(const DimMap& map, const std::vector<Interval>& own) {
  std::vector<Interval> fetched;
  if (map.kind == DimMap::Kind::kBackwards) {
    for (auto each = own.rbegin(); each != own.rend(); ++each) {
      fetched.push_back({map.size - each->stop, map.size - each->start});
    }
    return fetched;
  }
  for (const Interval& each : own) {
    for (std::int64_t o = each.start; o < each.stop;) {
      const std::int64_t from = map.source(o);
      const std::int64_t length = std::min(map.size - from, each.stop - o);
      fetched.push_back({from, from + length});
      o += length;
    }
  }
  return fetched;
}

/// The result of `x` by `dims`; others may lead it.
void run_maps(KernelCall& call, const Array& x, const MappedDims& dims) {
  const Array& out = call.outputs[0];
  if (out.num_elements() == 0) return;
  const Array made = mapped(call, x, dims);
  const bool leads = out.ndim() > made.ndim();
  kernels::copy(call.ctx, leads ? broadcast_view(made, out.shape()) : made, out);
}

std::vector<LoweringStep> map_steps(IndexMap map, std::size_t position, const Attrs& local) {
  const WindowFn windows = [map, position](const Attrs& attrs, const OperandView& operand,
                                           const OperandView& result) {
    const MappedDim each = value_or_throw(map(attrs, operand.spec->global_shape()))[position];
    const int lead = result.spec->ndim() - operand.spec->ndim();
    return fetched_by(each.map, held_part(result, lead + each.dim).held);
  };
  const auto make = [map, position](KernelCall& call) {
    auto dims = value_or_throw(map(call.attrs, call.inputs[1].shape()));
    const auto fetched = dims.begin() + static_cast<std::ptrdiff_t>(position);
    if (fetched->map.kind != DimMap::Kind::kBackwards) dims.erase(fetched);  // it is in order
    run_maps(call, call.inputs[1], dims);
  };
  return window_steps({1, 1}, static_cast<int>(local.get_ints(kMapped)[position]), windows, make);
}

Layout with_leading_dims(const Layout& layout, std::size_t ndim) {
  Layout out = layout;
  out.dims.insert(out.dims.begin(), ndim - layout.dims.size(), Levels{});
  return out;
}

}  // namespace

void DimMap::sources(Interval outs, std::span<std::int64_t> places) const {
  for (std::size_t at = 0; at < places.size(); ++at) {
    places[at] = source(outs.start + static_cast<std::int64_t>(at));
  }
}

Places DimMap::sources(Interval outs) const {
  Places places(static_cast<std::size_t>(outs.stop - outs.start));
  sources(outs, places);
  return places;
}

Array mapped(KernelCall& call, const Array& x, const MappedDims& dims) {
  Array result = x;
  for (const MappedDim& each : dims) result = taken(call, result, each);
  return result;
}

StatusOr<std::vector<Strategy>> mapped_strategies(std::span<const Spec* const> inputs,
                                                  std::span<const TensorMeta> outputs,
                                                  const std::vector<int>& dims) {
  const Layout& layout = inputs[0]->layout();
  const std::size_t ndim = outputs[0].shape.size();
  Layout whole = layout;
  for (const int dim : dims) whole.dims[static_cast<std::size_t>(dim)].clear();
  std::vector<Strategy> found;
  for (std::size_t i = 0; i < std::min(dims.size(), kMostMapped); ++i) {
    const auto dim = static_cast<std::size_t>(dims[i]);
    std::vector<int> axes = axes_of(layout.dims[dim]);
    if (axes.empty()) continue;
    Layout cut = whole;
    for (const int axis : axes) cut.dims[dim].push_back(Level::of_axis(axis));
    TSR_ASSIGN_OR_RETURN(
        Strategy stays,
        laid_out(inputs, cut, outputs, with_leading_dims(cut, ndim),
                 "dim " + std::to_string(dim) + " stays cut, each rank fetches its share"));
    stays.lowering = static_cast<int>(i);
    stays.lowering_axes = std::move(axes);
    found.push_back(std::move(stays));
  }
  TSR_ASSIGN_OR_RETURN(Strategy plain,
                       laid_out(inputs, whole, outputs, with_leading_dims(whole, ndim),
                                "all but the moved dims keep their cuts"));
  found.push_back(std::move(plain));
  return found;
}

void use_index_map(OpDef& def, IndexMap map) {
  def.kernel = [map](KernelCall& call) {
    const Array& x = call.inputs[0];
    run_maps(call, x, value_or_throw(map(call.attrs, x.shape())));
  };
  def.strategies = [map](std::span<const Spec* const> inputs, std::span<const TensorMeta> outputs,
                         const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    TSR_ASSIGN_OR_RETURN(const auto dims, map(attrs, inputs[0]->global_shape()));
    std::vector<int> numbers;
    for (const MappedDim& each : dims) numbers.push_back(each.dim);
    return mapped_strategies(inputs, outputs, numbers);
  };
  def.localize = [map](const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                       const Coord&) {
    Shape dims;
    for (const MappedDim& each : value_or_throw(map(attrs, inputs[0].global_shape()))) {
      dims.push_back(each.dim - inputs[0].ndim());
    }
    Attrs local = attrs;
    local.set(kMapped, std::move(dims));
    return local;
  };
  for (std::size_t position = 0; position < kMostMapped; ++position) {
    def.lowerings.push_back(
        {.factor = std::string(1, static_cast<char>('a' + position)),
         .doc = "each rank fetches what its share of moved dim " + std::to_string(position) +
                " is made of",
         .steps = [map, position](const Attrs& local) { return map_steps(map, position, local); }});
  }
}

WindowFn window_of_part(int dim, std::int64_t start) {
  return [dim, start](const Attrs&, const OperandView& operand, const OperandView& result) {
    const std::int64_t size = operand.spec->global_shape()[static_cast<std::size_t>(dim)];
    std::vector<Interval> needed;
    for (const Interval& own : held_part(result, dim).held) {
      const Interval part = {std::max<std::int64_t>(own.start - start, 0),
                             std::min(own.stop - start, size)};
      if (part.start < part.stop) needed.push_back(part);
    }
    return needed;
  };
}

}  // namespace tessera::ops
