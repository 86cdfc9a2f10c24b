// Reads and writes addressed by several indices at once (advanced indexing). Dims that no index
// addresses keep their cuts; on a cut addressed dim each rank serves what it holds.
#include "kernels/index_tuple.h"

#include <algorithm>
#include <bit>

#include "kernels/elementwise.h"
#include "strategies/ops/index_local.h"
#include "strategies/ops/level_walk.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Specs = std::span<const Spec* const>;
using Strategies = StatusOr<std::vector<Strategy>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

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

StatusOr<Shape> tuple_of(std::span<const TensorMeta> indices) {
  Shape shape;
  for (const TensorMeta& index : indices) {
    if (index.dtype == DType::kBool) {
      return invalid_argument(
          "an index is BOOL: the result's size would depend on its values; use masked_select, "
          "masked_fill or masked_scatter, or nonzero first");
    }
    TSR_RETURN_IF_ERROR(ops::check_integer(index, "an index"));
    TSR_ASSIGN_OR_RETURN(shape, ops::broadcast(shape, index.shape));
  }
  return shape;
}

Metas infer_index(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const std::vector<int> dims,
                       addressed_dims(attrs, inputs[0].shape.size(), inputs.size() - 1));
  TSR_ASSIGN_OR_RETURN(const Shape tuple, tuple_of(inputs.subspan(1)));
  return std::vector<TensorMeta>{
      {kernels::tuple_shape(inputs[0].shape, dims, tuple), inputs[0].dtype}};
}

Metas infer_index_put(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const std::vector<int> dims,
                       addressed_dims(attrs, inputs[0].shape.size(), inputs.size() - 2));
  TSR_ASSIGN_OR_RETURN(const Shape tuple, tuple_of(inputs.subspan(2)));
  const Shape slots = kernels::tuple_shape(inputs[0].shape, dims, tuple);
  const StatusOr<Shape> both = ops::broadcast(slots, inputs[1].shape);
  if (!both.ok() || *both != slots || inputs[1].dtype != inputs[0].dtype) {
    return invalid_argument("values " + to_string(inputs[1].shape) + " " +
                            std::string(name_of(inputs[1].dtype)) + " must broadcast to " +
                            to_string(slots) + " and be " + std::string(name_of(inputs[0].dtype)));
  }
  return std::vector<TensorMeta>{inputs[0]};
}

// ---- strategies ----

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
  std::uint32_t axes() const { return ops::cutting_axes({levels, {}}); }
};

/// Takes over the cuts of dims [first, first + tuple.ndim) of `layout` that use no axis twice.
void adopt_levels(Tuple& tuple, const Spec& from, std::ptrdiff_t first) {
  for (std::size_t d = 0; d < tuple.shape.size(); ++d) {
    const std::ptrdiff_t at = first + static_cast<std::ptrdiff_t>(d);
    if (at < 0 || at >= from.ndim() || !tuple.levels[d].empty()) continue;
    const auto source = static_cast<std::size_t>(at);
    if (from.global_shape()[source] != tuple.shape[d]) continue;
    const Levels& levels = from.layout().dims[source];
    if ((ops::cutting_axes({{levels}, {}}) & tuple.axes()) == 0) tuple.levels[d] = levels;
  }
}

StatusOr<Tuple> make_tuple(const Spec& self, Specs indices, const Attrs& attrs) {
  Tuple tuple;
  TSR_ASSIGN_OR_RETURN(tuple.dims,
                       addressed_dims(attrs, self.global_shape().size(), indices.size()));
  for (const Spec* index : indices) {
    TSR_ASSIGN_OR_RETURN(tuple.shape, ops::broadcast(tuple.shape, index->global_shape()));
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
  const std::vector<Levels> kept = ops::without_axes({tuple.levels, {}}, ~axes).dims;
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
  const std::vector<Levels> kept = ops::without_axes({tuple.levels, {}}, ~axes).dims;
  for (std::size_t d = 0; d < kept.size(); ++d) out.dims[tuple.position + d] = kept[d];
  return out;
}

/// On each axis either the indices keep their cut, or self keeps what it has.
Strategies index_strategies(Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs) {
  const Spec& self = *inputs[0];
  TSR_ASSIGN_OR_RETURN(const Tuple tuple, make_tuple(self, inputs.subspan(1), attrs));
  const std::uint32_t cuts = tuple.axes();
  std::vector<Strategy> found;
  for (std::uint32_t axes = 0; axes <= cuts; ++axes) {
    if ((axes & ~cuts) != 0) continue;
    Layout layout = ops::without_axes(self.layout(), axes);
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

/// What one axis on which self is Partial asks of the values: the same, nothing (R), or a refusal.
enum class ValuesOn : std::uint8_t { kSame, kWhole, kNever };

ValuesOn values_on(ReduceOp self, const std::optional<ReduceOp>& values, bool accumulate) {
  switch (self) {
    case ReduceOp::kSum:
      return ValuesOn::kSame;
    case ReduceOp::kAvg:
      return values == self ? ValuesOn::kSame : ValuesOn::kWhole;
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return values == self && !accumulate ? ValuesOn::kSame : ValuesOn::kWhole;
    case ReduceOp::kProd:
      return values == self && !accumulate ? ValuesOn::kSame : ValuesOn::kNever;
  }
  return ValuesOn::kNever;
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
  std::uint32_t used = ops::cutting_axes(whole);
  const std::size_t ndim = whole.dims.size() - tuple.dims.size() + tuple.shape.size();
  const std::size_t lead = ndim - values.global_shape().size();
  for (std::size_t d = 0; d < whole.dims.size(); ++d) {
    if (tuple.addresses(d) || tuple.result_dim(d) < lead || !whole.dims[d].empty()) continue;
    const std::size_t at = tuple.result_dim(d) - lead;
    const Levels& levels = values.layout().dims[at];
    const bool fits = values.global_shape()[at] == self.global_shape()[d];
    if (!fits || (ops::cutting_axes({{levels}, {}}) & used) != 0) continue;
    like_values.dims[d] = levels;
    used |= ops::cutting_axes({{levels}, {}});
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

Strategies put_strategies(Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs,
                          std::size_t num_layouts) {
  const Spec& self = *inputs[0];
  const Spec& values = *inputs[1];
  const bool accumulate = attrs.get_bool("accumulate");
  TSR_ASSIGN_OR_RETURN(Tuple tuple, make_tuple(self, inputs.subspan(2), attrs));
  const std::size_t ndim = self.global_shape().size() - tuple.dims.size() + tuple.shape.size();
  adopt_levels(tuple, values,
               static_cast<std::ptrdiff_t>(tuple.position) - static_cast<std::ptrdiff_t>(ndim) +
                   static_cast<std::ptrdiff_t>(values.ndim()));
  std::vector<Layout> layouts = self_layouts(tuple, self, values, accumulate);
  layouts.resize(std::min(layouts.size(), num_layouts));
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
  if (found.empty()) {
    return failed_precondition("index_put_: self " + self.to_string() +
                               " is P(prod), which passes only with values of P(prod) and without "
                               "accumulate; redistribute self first");
  }
  return found;
}

// ---- kernels ----

/// The local tuple of a call whose indices are operands from `first` on.
kernels::IndexTuple local_tuple(KernelCall& call, std::string_view op, std::size_t first) {
  kernels::IndexTuple tuple;
  tuple.dims = value_or_throw(
      addressed_dims(call.attrs, call.inputs[0].shape().size(), call.inputs.size() - first));
  Shape shape;
  for (const Array& index : call.inputs.subspan(first)) {
    shape = value_or_throw(ops::broadcast(shape, index.shape()));
  }
  for (std::size_t k = 0; k < tuple.dims.size(); ++k) {
    const Array local = ops::local_positions(call, ops::addressed_dim(call, op, 0, tuple.dims[k]),
                                             call.inputs[first + k]);
    tuple.indices.push_back(kernels::contiguous(call.ctx, ops::broadcast_view(local, shape)));
  }
  return tuple;
}

void run_index(KernelCall& call) {
  kernels::index_get(call.ctx, call.inputs[0], local_tuple(call, "index", 1),
                     kernels::Absent::kSkip, call.outputs[0]);
}

void run_index_put(KernelCall& call) {
  const Array& out = call.outputs[0];
  if (out.storage() != call.inputs[0].storage()) kernels::copy(call.ctx, call.inputs[0], out);
  const kernels::IndexTuple tuple = local_tuple(call, "index_put", 2);
  const Array values = kernels::contiguous(
      call.ctx,
      ops::broadcast_view(call.inputs[1],
                          kernels::tuple_shape(out.shape(), tuple.dims, tuple.indices[0].shape())));
  const bool accumulate = call.attrs.get_bool("accumulate");
  kernels::index_put(call.ctx, out, tuple, values,
                     accumulate ? kernels::Combine::kAdd : kernels::Combine::kAssign,
                     kernels::Absent::kSkip);
}

// ---- gradients ----

std::vector<Var> indices_from(GradContext& c, int first, std::vector<Var> operands) {
  for (int i = first; i < c.num_inputs(); ++i) operands.push_back(c.input(i));
  return operands;
}

std::vector<Var> index_gradient(GradContext& c) {
  const Var zeros = c.call("new_zeros", {c.cotangent(0)}, {{"size", c.input_shape(0)}});
  const std::vector<Var> operands = indices_from(c, 1, {zeros, c.cotangent(0)});
  std::vector<Var> grads(static_cast<std::size_t>(c.num_inputs()));
  grads[0] = c.call_all("index_put", operands,
                        {{"dims", c.attrs().get_ints("dims")}, {"accumulate", true}})[0];
  return grads;
}

std::vector<Var> index_put_gradient(GradContext& c) {
  const Attrs dims = {{"dims", c.attrs().get_ints("dims")}};
  std::vector<Var> grads(static_cast<std::size_t>(c.num_inputs()));
  grads[0] = c.cotangent(0);
  if (!c.attrs().get_bool("accumulate")) {
    const Var zero = c.call("new_zeros", {c.cotangent(0)}, {{"size", Shape{}}});
    grads[0] = c.call_all("index_put", indices_from(c, 2, {c.cotangent(0), zero}), dims)[0];
  }
  if (c.needs(1)) {
    const Var read = c.call_all("index", indices_from(c, 2, {c.cotangent(0)}), dims)[0];
    grads[1] = c.sum_to(read, c.input_shape(1));
  }
  return grads;
}

std::vector<int> numbers(int first, int last) {
  std::vector<int> list;
  for (int i = first; i <= last; ++i) list.push_back(i);
  return list;
}
constexpr int kMostOperands = 8;

void add_index(OpTable& table) {
  table.must_add(
      {.name = "index",
       .doc = "Slices addressed by indices (broadcast together) on the dims listed, by default the "
              "first; their dims stand where the addressed ones stood if those are neighbours, "
              "else in front. Negative indices count from the end.",
       .args = {in("self"), in_list("indices")},
       .attrs = {ops::ints_attr_or_none("dims")},
       .rule = "",
       .kernel = run_index,
       .infer = infer_index,
       .gradient = index_gradient,
       .saved_inputs = numbers(1, kMostOperands),
       .strategies = index_strategies,
       .samples = {{.shapes = {{8, 6}, {7}}, .dtypes = {kF, kI}, .below = {2, 8}},
                   {.shapes = {{6, 2, 7}, {6, 6}, {6}},
                    .attrs = {{"dims", Shape{0, 2}}},
                    .dtypes = {kF, kI, kI},
                    .below = {2, 6, 7}},
                   {.shapes = {{3, 5, 4}, {2, 1}, {3}},
                    .attrs = {{"dims", Shape{1, 2}}},
                    .dtypes = {kF, kI, kI},
                    .below = {2, 5, 4}},
                   {.shapes = {{5, 3}, {4}},
                    .attrs = {{"dims", Shape{1}}},
                    .dtypes = {kF, kI},
                    .below = {2, 3}}}});
}

std::vector<Sample> put_samples() {
  std::vector<Sample> samples;
  for (const bool accumulate : {false, true}) {
    const int unique = accumulate ? -1 : 0;
    samples.push_back({.shapes = {{8, 6}, {7, 6}, {7}},
                       .attrs = {{"accumulate", accumulate}},
                       .dtypes = {kF, kF, kI},
                       .below = {2, 2, 8},
                       .unique_dim = {-1, -1, unique}});
    samples.push_back({.shapes = {{6, 2, 7}, {6, 2}, {6}, {6}},
                       .attrs = {{"dims", Shape{0, 2}}, {"accumulate", accumulate}},
                       .dtypes = {kF, kF, kI, kI},
                       .below = {2, 2, 6, 7},
                       .unique_dim = {-1, -1, unique, -1}});
    samples.push_back({.shapes = {{5, 3}, {}, {2}},
                       .attrs = {{"dims", Shape{1}}, {"accumulate", accumulate}},
                       .dtypes = {kF, kF, kI},
                       .below = {2, 2, 3},
                       .unique_dim = {-1, -1, unique}});
  }
  return samples;
}

void add_index_put(OpTable& table) {
  OpDef put = {
      .name = "index_put",
      .doc =
          "self with `values` (broadcast) in the slices that `index` would read, or "
          "added to them; of equal indices the last wins.",
      .args = {in("self"), in("values"), in_list("indices")},
      .attrs = {ops::ints_attr_or_none("dims"), ops::bool_attr("accumulate", false)},
      .rule = "",
      .kernel = run_index_put,
      .infer = infer_index_put,
      .gradient = index_put_gradient,
      .saved_inputs = numbers(2, kMostOperands),
      .strategies = [](Specs inputs, std::span<const TensorMeta> outputs,
                       const Attrs& attrs) { return put_strategies(inputs, outputs, attrs, 4); },
      .samples = put_samples()};
  OpDef in_place = put;
  in_place.name = "index_put_";
  in_place.doc += " In place.";
  in_place.rule = "*, *, *.. -> &A *";
  in_place.strategies = [](Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs) {
    return put_strategies(inputs, outputs, attrs, 1);  // self stays as it is
  };
  table.must_add(std::move(put));
  table.must_add(std::move(in_place));
}

}  // namespace

void add_index_tuple_ops(OpTable& table) {
  add_index(table);
  add_index_put(table);
}

}  // namespace tessera
