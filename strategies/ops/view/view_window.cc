#include "strategies/ops/view/view_window.h"

#include <algorithm>

#include "kernels/index.h"

namespace tessera::ops {
namespace {

constexpr std::size_t kMostMoved = 6;
/// Set in the local attributes.
constexpr std::string_view kMoved = "moved_dims";

std::vector<int> axes_of(const Levels& levels) {
  std::vector<int> axes;
  for (const Level& level : levels) {
    if (level.kind == Level::Kind::kAxis) axes.push_back(level.axis);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

StatusOr<Strategy> with_layout(const Spec& input, const TensorMeta& output, const Layout& layout) {
  const std::size_t lead = output.shape.size() - layout.dims.size();
  Layout out = {std::vector<Levels>(lead), layout.partial};
  out.dims.insert(out.dims.end(), layout.dims.begin(), layout.dims.end());
  TSR_ASSIGN_OR_RETURN(Spec in,
                       Spec::make(input.mesh(), input.global_shape(), input.dtype(), layout));
  TSR_ASSIGN_OR_RETURN(Spec result,
                       Spec::make(input.mesh(), output.shape, output.dtype, std::move(out)));
  return Strategy{{std::move(in)}, {std::move(result)}, "all but the moved dims keep their cuts"};
}

/// One strategy for each moved dim that is cut and has a lowering, and one with all of them whole.
StatusOr<std::vector<Strategy>> strategies(const Spec& input, const TensorMeta& output,
                                           const std::vector<int>& moved) {
  Layout whole = input.layout();
  for (const int dim : moved) whole.dims[static_cast<std::size_t>(dim)].clear();
  std::vector<Strategy> found;
  for (std::size_t i = 0; i < moved.size() && i < kMostMoved; ++i) {
    const auto dim = static_cast<std::size_t>(moved[i]);
    const std::vector<int> axes = axes_of(input.layout().dims[dim]);
    if (axes.empty()) continue;
    Layout cut = whole;
    for (const int axis : axes) cut.dims[dim].push_back(Level::of_axis(axis));
    TSR_ASSIGN_OR_RETURN(Strategy strategy, with_layout(input, output, cut));
    strategy.why = "dim " + std::to_string(moved[i]) + " stays cut, each rank fetches its share";
    strategy.lowering = static_cast<int>(i);
    strategy.lowering_axes = axes;
    found.push_back(std::move(strategy));
  }
  TSR_ASSIGN_OR_RETURN(Strategy plain, with_layout(input, output, whole));
  found.push_back(std::move(plain));
  return found;
}

std::vector<LoweringStep> steps(const MovedDims& moved, std::size_t position, const Attrs& attrs) {
  const int dim = moved_dims(attrs)[position];
  LoweringStep fetch{.kind = LoweringStep::Kind::kWindow, .in = {0}, .out = {2}, .dim = dim};
  fetch.windows = [windows = moved.windows, position, dim](
                      const Attrs& global, const OperandView& operand, const OperandView& result) {
    const auto lead = static_cast<std::size_t>(result.spec->ndim() - operand.spec->ndim());
    const auto d = static_cast<std::size_t>(dim);
    return windows(global, position, operand.spec->global_shape()[d],
                   local_intervals(result.spec->mesh(), result.spec->global_shape()[lead + d],
                                   result.spec->layout().dims[lead + d], *result.coord));
  };
  LoweringStep finish{.kind = LoweringStep::Kind::kLocal, .in = {2}, .out = {1}};
  finish.kernel = [run = moved.finish, dim](KernelCall& call) { run(call, dim); };
  return {fetch, finish};
}

}  // namespace

void use_windows(OpDef& def, const MovedDims& moved) {
  def.strategies = [dims = moved.dims](std::span<const Spec* const> inputs,
                                       std::span<const TensorMeta> outputs,
                                       const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    TSR_ASSIGN_OR_RETURN(const std::vector<int> list,
                         dims(attrs, inputs[0]->global_shape().size()));
    return strategies(*inputs[0], outputs[0], list);
  };
  def.localize = [dims = moved.dims](const Attrs& attrs, std::span<const Spec> inputs,
                                     std::span<const Spec>, const Coord&) {
    Attrs local = attrs;
    const auto list = value_or_throw(dims(attrs, inputs[0].global_shape().size()));
    local.set(kMoved, Shape(list.begin(), list.end()));
    return local;
  };
  for (int position = 0; position < static_cast<int>(kMostMoved); ++position) {
    def.lowerings.push_back({.factor = std::string(1, static_cast<char>('a' + position)),
                             .doc = "each rank fetches what its share of moved dim " +
                                    std::to_string(position) + " is made of",
                             .steps = [moved, position](const Attrs& attrs) {
                               return steps(moved, static_cast<std::size_t>(position), attrs);
                             }});
  }
}

std::vector<int> moved_dims(const Attrs& local_attrs) {
  const Shape dims = local_attrs.get_ints(kMoved);
  return {dims.begin(), dims.end()};
}

Array taken(KernelCall& call, const Array& x, int dim, const std::vector<std::int64_t>& order) {
  const auto count = static_cast<std::int64_t>(order.size());
  const Array places = Array::empty({count}, DType::kI64);
  std::copy(order.begin(), order.end(), places.data<std::int64_t>());
  const Array at = to_device(call.ctx, places);
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(dim)] = count;
  const Array out = Array::empty(shape, x.dtype(), call.ctx.allocator);
  kernels::index_select(call.ctx, x, dim, at, kernels::Absent::kError, out);
  return out;
}

}  // namespace tessera::ops
