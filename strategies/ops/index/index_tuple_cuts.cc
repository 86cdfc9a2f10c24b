#include "strategies/ops/index/index_tuple_cuts.h"

#include <algorithm>
#include <optional>

#include "kernels/index_tuple.h"
#include "placement/reduce_op.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"

namespace tessera::ops {
namespace {

using Specs = std::span<const Spec* const>;

/// The dims of a call, where its tuple's dims stand in the result, and which axes cut those.
struct Tuple {
  std::vector<int> dims;
  Shape shape;
  std::size_t position = 0;
  std::vector<Levels> levels;  ///< per dim of `shape`, as some index (or the values) has it

  /// The result's dim for a dim of self that is not addressed.
  std::size_t result_dim(std::size_t self_dim) const {
    std::size_t at = self_dim;
    for (const int dim : dims) at -= static_cast<std::size_t>(dim) < self_dim ? 1 : 0;
    return at < position ? at : at + shape.size();
  }
  bool addresses(std::size_t dim) const {
    return std::find(dims.begin(), dims.end(), static_cast<int>(dim)) != dims.end();
  }
  std::uint32_t axes() const { return cutting_axes({levels, {}}); }
};

/// Takes over the cuts of dims [first, first + tuple.ndim) of `layout` that use no axis twice.
void adopt_levels(Tuple& tuple, const Spec& from, std::ptrdiff_t first) {
  for (std::size_t d = 0; d < tuple.shape.size(); ++d) {
    const std::ptrdiff_t at = first + static_cast<std::ptrdiff_t>(d);
    if (at < 0 || at >= from.ndim() || !tuple.levels[d].empty()) continue;
    const auto source = static_cast<std::size_t>(at);
    if (from.global_shape()[source] != tuple.shape[d]) continue;
    const Levels& levels = from.layout().dims[source];
    if ((cutting_axes({{levels}, {}}) & tuple.axes()) == 0) tuple.levels[d] = levels;
  }
}

StatusOr<Tuple> make_tuple(const Spec& self, Specs indices, const Attrs& attrs) {
  Tuple tuple;
  TSR_ASSIGN_OR_RETURN(tuple.dims,
                       addressed_dims(attrs, self.global_shape().size(), indices.size()));
  for (const Spec* index : indices) {
    TSR_ASSIGN_OR_RETURN(tuple.shape, broadcast(tuple.shape, index->global_shape()));
  }
  tuple.position = static_cast<std::size_t>(kernels::tuple_position(tuple.dims));
  tuple.levels.resize(tuple.shape.size());
  for (const Spec* index : indices) {
    adopt_levels(tuple, *index,
                 static_cast<std::ptrdiff_t>(index->ndim()) -
                     static_cast<std::ptrdiff_t>(tuple.shape.size()));
  }
  return tuple;
}

/// Each index cut by `axes` as the tuple is, whole on all others.
Status add_indices(const Tuple& tuple, Specs indices, std::uint32_t axes, Strategy& strategy) {
  const std::vector<Levels> kept = without_axes({tuple.levels, {}}, ~axes).dims;
  for (const Spec* index : indices) {
    Layout layout;
    layout.dims.resize(index->global_shape().size());
    layout.partial.resize(index->layout().partial.size());
    const std::size_t lead = tuple.shape.size() - layout.dims.size();
    for (std::size_t d = 0; d < layout.dims.size(); ++d) {
      if (index->global_shape()[d] == tuple.shape[lead + d]) layout.dims[d] = kept[lead + d];
    }
    TSR_ASSIGN_OR_RETURN(Spec spec,
                         Spec::make(index->mesh(), index->global_shape(), index->dtype(), layout));
    strategy.inputs.push_back(std::move(spec));
  }
  return {};
}

/// Self's layout as the result's: cut addressed dims give P(sum), the tuple's dims their own cuts.
Layout read_layout(const Tuple& tuple, const Layout& self, std::uint32_t axes, std::size_t ndim) {
  Layout out = {std::vector<Levels>(ndim), self.partial};
  for (std::size_t d = 0; d < self.dims.size(); ++d) {
    if (!tuple.addresses(d)) {
      out.dims[tuple.result_dim(d)] = self.dims[d];
      continue;
    }
    for (const Level& level : self.dims[d]) {
      if (level.kind == Level::Kind::kAxis) {
        out.partial[static_cast<std::size_t>(level.axis)] = ReduceOp::kSum;
      }
    }
  }
  const std::vector<Levels> kept = without_axes({tuple.levels, {}}, ~axes).dims;
  for (std::size_t d = 0; d < kept.size(); ++d) out.dims[tuple.position + d] = kept[d];
  return out;
}

/// What one axis on which self is Partial asks of the values: the same, nothing (R), or a refusal.
enum class ValuesOn : std::uint8_t { kSame, kWhole, kNever };

ValuesOn values_on(ReduceOp self, const std::optional<ReduceOp>& values, bool accumulate) {
  // Only a sum adds up: adding is not monotone where infinities meet or integers wrap.
  if (accumulate && !is_linear(self)) return ValuesOn::kNever;
  if (values == self || self == ReduceOp::kSum) return ValuesOn::kSame;
  return is_idempotent(self) ? ValuesOn::kWhole : ValuesOn::kNever;
}

/// The values' layout beside self's; `axes` cut the tuple. Absent where self's Partial does not
/// pass.
std::optional<Layout> values_layout(const Tuple& tuple, const Spec& values, const Layout& self,
                                    std::uint32_t axes, bool accumulate) {
  const std::size_t ndim = self.dims.size() - tuple.dims.size() + tuple.shape.size();
  const std::size_t lead = ndim - values.global_shape().size();
  Layout layout;
  layout.dims.resize(values.global_shape().size());
  layout.partial.resize(self.partial.size());
  const Layout slots = read_layout(tuple, self, axes, ndim);
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (values.global_shape()[d] != 1) layout.dims[d] = slots.dims[lead + d];
  }
  for (std::size_t a = 0; a < self.partial.size(); ++a) {
    if (!self.partial[a] || ((axes >> a) & 1) != 0) continue;
    switch (values_on(*self.partial[a], values.layout().partial[a], accumulate)) {
      case ValuesOn::kSame:
        layout.partial[a] = self.partial[a];
        break;
      case ValuesOn::kWhole:
        break;
      case ValuesOn::kNever:
        return std::nullopt;
    }
  }
  return layout;
}

/// Layouts that self may take: its own, without Partial, cut as the values are, summed where the
/// tuple is cut.
std::vector<Layout> self_layouts(const Tuple& tuple, const Spec& self, const Spec& values,
                                 bool accumulate) {
  Layout whole = self.layout();
  for (auto& partial : whole.partial) partial.reset();
  Layout like_values = whole;
  std::uint32_t used = cutting_axes(whole);
  const std::size_t ndim = whole.dims.size() - tuple.dims.size() + tuple.shape.size();
  const std::size_t lead = ndim - values.global_shape().size();
  for (std::size_t d = 0; d < whole.dims.size(); ++d) {
    if (tuple.addresses(d) || tuple.result_dim(d) < lead || !whole.dims[d].empty()) continue;
    const std::size_t at = tuple.result_dim(d) - lead;
    const Levels& levels = values.layout().dims[at];
    const bool fits = values.global_shape()[at] == self.global_shape()[d];
    if (!fits || (cutting_axes({{levels}, {}}) & used) != 0) continue;
    like_values.dims[d] = levels;
    used |= cutting_axes({{levels}, {}});
  }
  std::vector<Layout> layouts = {self.layout(), whole, like_values};
  for (std::size_t a = 0; a < whole.partial.size(); ++a) {
    const bool free = ((used >> a) & 1) == 0;
    const bool cut = ((tuple.axes() >> a) & 1) != 0;
    const bool sums = values.layout().partial[a] == ReduceOp::kSum;
    if (free && ((cut && accumulate) || sums)) like_values.partial[a] = ReduceOp::kSum;
  }
  if (is_floating(self.dtype())) layouts.push_back(std::move(like_values));
  return layouts;
}

/// Self without Partial and the values P(avg), or P(max) or P(min) where they overwrite: the result
/// is that too, as what self has elsewhere is its own average and extreme.
Status add_partial_values(Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs,
                          std::vector<Strategy>& found) {
  const Spec& self = *inputs[0];
  const Spec& values = *inputs[1];
  TSR_ASSIGN_OR_RETURN(Tuple tuple, make_tuple(self, inputs.subspan(2), attrs));
  Layout kept = self.layout();
  Layout given;
  given.dims.resize(values.global_shape().size());
  given.partial.resize(kept.partial.size());
  const std::uint32_t used = cutting_axes(kept);
  bool any = false;
  for (std::size_t a = 0; a < kept.partial.size(); ++a) {
    kept.partial[a].reset();
    const std::optional<ReduceOp>& kind = values.layout().partial[a];
    const bool passes =
        kind && is_idempotent(*kind) && (is_linear(*kind) || !attrs.get_bool("accumulate"));
    if (!passes || ((used >> a) & 1) != 0) continue;
    given.partial[a] = kind;
    any = true;
  }
  if (!any) return {};
  Layout out = kept;
  out.partial = given.partial;
  const std::size_t ndim = kept.dims.size() - tuple.dims.size() + tuple.shape.size();
  const Layout slots = read_layout(tuple, kept, 0, ndim);
  for (std::size_t d = 0; d < given.dims.size(); ++d) {
    const std::size_t at = ndim - given.dims.size() + d;
    if (values.global_shape()[d] != 1) given.dims[d] = slots.dims[at];
  }
  Strategy strategy;
  strategy.why = "the values stay Partial, and so is the result";
  TSR_ASSIGN_OR_RETURN(Spec whole,
                       Spec::make(self.mesh(), self.global_shape(), self.dtype(), kept));
  TSR_ASSIGN_OR_RETURN(Spec partial,
                       Spec::make(values.mesh(), values.global_shape(), values.dtype(), given));
  TSR_ASSIGN_OR_RETURN(Spec result,
                       Spec::make(self.mesh(), outputs[0].shape, outputs[0].dtype, std::move(out)));
  strategy.inputs = {std::move(whole), std::move(partial)};
  TSR_RETURN_IF_ERROR(add_indices(tuple, inputs.subspan(2), 0, strategy));
  strategy.outputs.push_back(std::move(result));
  found.push_back(std::move(strategy));
  return {};
}

}  // namespace

/// Dims addressed by the indices, ascending.
StatusOr<std::vector<int>> addressed_dims(const Attrs& attrs, std::size_t ndim, std::size_t count) {
  std::vector<int> dims;
  for (const std::int64_t each : attrs.get_ints("dims")) {
    TSR_ASSIGN_OR_RETURN(const int dim, normalize_dim(each, static_cast<int>(ndim)));
    dims.push_back(dim);
  }
  if (dims.empty()) {
    for (std::size_t k = 0; k < std::min(count, ndim); ++k) dims.push_back(static_cast<int>(k));
  }
  for (std::size_t k = 1; k < dims.size(); ++k) {
    if (dims[k] <= dims[k - 1]) {
      return invalid_argument("dims " + to_string(attrs.get_ints("dims")) + " must ascend");
    }
  }
  if (dims.size() != count) {
    return invalid_argument(std::to_string(count) + " indices for " + std::to_string(dims.size()) +
                            " addressed dims of a tensor of " + std::to_string(ndim) + " dims");
  }
  return dims;
}

/// On each axis either the indices keep their cut, or self keeps what it has.
StatusOr<std::vector<Strategy>> index_strategies(Specs inputs, std::span<const TensorMeta> outputs,
                                                 const Attrs& attrs) {
  const Spec& self = *inputs[0];
  TSR_ASSIGN_OR_RETURN(const Tuple tuple, make_tuple(self, inputs.subspan(1), attrs));
  const std::uint32_t cuts = tuple.axes();
  std::vector<Strategy> found;
  for (std::uint32_t axes = 0; axes <= cuts; ++axes) {
    if ((axes & ~cuts) != 0) continue;
    Layout layout = without_axes(self.layout(), axes);
    for (std::size_t a = 0; a < layout.partial.size(); ++a) {
      if (((axes >> a) & 1) != 0) layout.partial[a].reset();
    }
    if (self.dtype() == DType::kBool) {
      for (const int dim : tuple.dims) layout.dims[static_cast<std::size_t>(dim)].clear();
    }
    Strategy strategy;
    strategy.why = axes == 0 ? "self stays, the indices whole" : "the indices keep their cuts";
    TSR_ASSIGN_OR_RETURN(Spec in,
                         Spec::make(self.mesh(), self.global_shape(), self.dtype(), layout));
    strategy.inputs.push_back(std::move(in));
    TSR_RETURN_IF_ERROR(add_indices(tuple, inputs.subspan(1), axes, strategy));
    TSR_ASSIGN_OR_RETURN(Spec out,
                         Spec::make(self.mesh(), outputs[0].shape, outputs[0].dtype,
                                    read_layout(tuple, layout, axes, outputs[0].shape.size())));
    strategy.outputs.push_back(std::move(out));
    found.push_back(std::move(strategy));
  }
  return found;
}

StatusOr<std::vector<Strategy>> put_strategies(Specs inputs, std::span<const TensorMeta> outputs,
                                               const Attrs& attrs, TupleSelf may) {
  const Spec& self = *inputs[0];
  const Spec& values = *inputs[1];
  const bool accumulate = attrs.get_bool("accumulate");
  TSR_ASSIGN_OR_RETURN(Tuple tuple, make_tuple(self, inputs.subspan(2), attrs));
  const std::size_t ndim = self.global_shape().size() - tuple.dims.size() + tuple.shape.size();
  adopt_levels(tuple, values,
               static_cast<std::ptrdiff_t>(tuple.position) - static_cast<std::ptrdiff_t>(ndim) +
                   static_cast<std::ptrdiff_t>(values.ndim()));
  std::vector<Layout> layouts = self_layouts(tuple, self, values, accumulate);
  if (may == TupleSelf::kStays) layouts.resize(1);
  std::vector<Strategy> found;
  for (const Layout& layout : layouts) {
    std::uint32_t axes = 0;  // on which updates are spread over the ranks that sum them
    for (std::size_t a = 0; accumulate && a < layout.partial.size(); ++a) {
      if (layout.partial[a] == ReduceOp::kSum) axes |= tuple.axes() & (std::uint32_t{1} << a);
    }
    std::optional<Layout> beside = values_layout(tuple, values, layout, axes, accumulate);
    if (!beside) continue;
    Strategy strategy;
    strategy.why = "each rank applies the updates of what it holds";
    TSR_ASSIGN_OR_RETURN(Spec kept,
                         Spec::make(self.mesh(), self.global_shape(), self.dtype(), layout));
    TSR_ASSIGN_OR_RETURN(Spec given, Spec::make(values.mesh(), values.global_shape(),
                                                values.dtype(), *std::move(beside)));
    TSR_ASSIGN_OR_RETURN(Spec out,
                         Spec::make(self.mesh(), outputs[0].shape, outputs[0].dtype, layout));
    strategy.inputs = {std::move(kept), std::move(given)};
    TSR_RETURN_IF_ERROR(add_indices(tuple, inputs.subspan(2), axes, strategy));
    strategy.outputs.push_back(std::move(out));
    found.push_back(std::move(strategy));
  }
  if (may == TupleSelf::kMayMove)
    TSR_RETURN_IF_ERROR(add_partial_values(inputs, outputs, attrs, found));
  if (found.empty()) {
    return failed_precondition("index_put_: self " + self.to_string() +
                               " is P(prod), which passes only with values of P(prod) and without "
                               "accumulate; redistribute self first");
  }
  return found;
}

}  // namespace tessera::ops
