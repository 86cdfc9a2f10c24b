// Tensors joined along a dim.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_cat(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
  const auto place = static_cast<std::size_t>(dim);
  for (const TensorMeta& input : inputs.subspan(1)) {
    bool fits = input.shape.size() == out.shape.size();
    for (std::size_t d = 0; fits && d < out.shape.size(); ++d) {
      fits = d == place || input.shape[d] == out.shape[d];
    }
    if (!fits) {
      return invalid_argument("tensors " + to_string(inputs[0].shape) + " and " +
                              to_string(input.shape) + " differ in more than dim " +
                              std::to_string(dim));
    }
    out.shape[place] = (CheckedInt(out.shape[place]) + input.shape[place]).clamped();
    out.dtype = promote(out.dtype, input.dtype);
  }
  return std::vector<TensorMeta>{out};
}

/// One operand's layout for all: the joined dim whole, Partial where all are Partial of that kind.
Layout joint_layout(const Spec& leader, std::span<const Spec* const> inputs, std::size_t dim) {
  Layout layout = leader.layout();
  layout.dims[dim].clear();
  for (std::size_t axis = 0; axis < layout.partial.size(); ++axis) {
    for (const Spec* input : inputs) {
      if (input->layout().partial[axis] != layout.partial[axis]) layout.partial[axis].reset();
    }
  }
  return layout;
}

/// All operands under `layout`; the result too.
StatusOr<Strategy> joined(std::span<const Spec* const> inputs, const TensorMeta& output,
                          const Layout& layout) {
  Strategy strategy;
  strategy.why = "the joined dim whole, all else cut alike";
  for (const Spec* input : inputs) {
    TSR_ASSIGN_OR_RETURN(Spec spec,
                         Spec::make(input->mesh(), input->global_shape(), input->dtype(), layout));
    strategy.inputs.push_back(std::move(spec));
  }
  TSR_ASSIGN_OR_RETURN(Spec out, Spec::make(inputs[0]->mesh(), output.shape, output.dtype, layout));
  strategy.outputs.push_back(std::move(out));
  return strategy;
}

/// The joined dim cut by the leader's axes, in mesh order.
std::vector<int> joined_axes(const Spec& leader, std::size_t dim) {
  std::vector<int> axes;
  for (const Level& level : leader.layout().dims[dim]) {
    if (level.kind == Level::Kind::kAxis) axes.push_back(level.axis);
  }
  std::sort(axes.begin(), axes.end());
  return axes;
}

StatusOr<std::vector<Strategy>> cat_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim()));
  const auto place = static_cast<std::size_t>(dim);
  std::vector<Layout> layouts;
  std::vector<Strategy> strategies;
  for (const Spec* leader : inputs) {
    Layout layout = joint_layout(*leader, inputs, place);
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(layout);
      TSR_ASSIGN_OR_RETURN(Strategy whole, joined(inputs, outputs[0], layout));
      strategies.push_back(std::move(whole));
    }
    const std::vector<int> axes = joined_axes(*leader, place);
    if (axes.empty()) continue;
    for (const int axis : axes) {
      layout.dims[place].push_back(Level::of_axis(axis));
      layout.partial[static_cast<std::size_t>(axis)].reset();
    }
    if (std::find(layouts.begin(), layouts.end(), layout) != layouts.end()) continue;
    layouts.push_back(layout);
    TSR_ASSIGN_OR_RETURN(Strategy cut, joined(inputs, outputs[0], layout));
    cut.why = "the joined dim stays cut, each rank fetches its share of the result";
    cut.lowering = 0;
    cut.lowering_axes = axes;
    strategies.push_back(std::move(cut));
  }
  return strategies;
}

void run_cat(KernelCall& call);

/// Sizes of the operands along the joined dim, for the steps.
constexpr std::string_view kParts = "parts";

Attrs localize_cat(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                   const Coord&) {
  Attrs local = attrs;
  const int dim = value_or_throw(ops::dim_attr(attrs, inputs[0].ndim()));
  Shape parts;
  for (const Spec& input : inputs) {
    parts.push_back(input.global_shape()[static_cast<std::size_t>(dim)]);
  }
  local.set("dim", std::int64_t{dim});
  local.set(kParts, parts);
  return local;
}

/// What a rank's share of the result takes from the operand that stands at [start, start + size).
WindowFn share_of_part(int dim, std::int64_t start, std::int64_t size) {
  return [dim, start, size](const Attrs&, const OperandView&, const OperandView& result) {
    const auto d = static_cast<std::size_t>(dim);
    std::vector<Interval> needed;
    for (const Interval& own : local_intervals(result.spec->mesh(), result.spec->global_shape()[d],
                                               result.spec->layout().dims[d], *result.coord)) {
      const Interval part = {std::max<std::int64_t>(own.start - start, 0),
                             std::min(own.stop - start, size)};
      if (part.start < part.stop) needed.push_back(part);
    }
    return needed;
  };
}

std::vector<LoweringStep> cat_steps(const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.get_int("dim"));
  const Shape parts = attrs.get_ints(kParts);
  const int count = static_cast<int>(parts.size());
  std::vector<LoweringStep> steps;
  LoweringStep join{.kind = LoweringStep::Kind::kLocal, .out = {count}};
  std::int64_t start = 0;
  for (int i = 0; i < count; ++i) {
    const std::int64_t size = parts[static_cast<std::size_t>(i)];
    LoweringStep fetch{.kind = LoweringStep::Kind::kWindow, .in = {i}, .out = {count + 1 + i}};
    fetch.dim = dim;
    fetch.windows = share_of_part(dim, start, size);
    steps.push_back(std::move(fetch));
    join.in.push_back(count + 1 + i);
    start += size;
  }
  join.kernel = run_cat;
  steps.push_back(std::move(join));
  return steps;
}

void run_cat(KernelCall& call) {
  const Array& out = call.outputs[0];
  const int dim = ops::kernel_dim(call, out);
  std::int64_t start = 0;
  for (const Array& input : call.inputs) {
    const std::int64_t stop = start + input.size(dim);
    kernels::copy(call.ctx, input, out.slice(dim, start, stop));
    start = stop;
  }
}

std::vector<Var> cat_gradient(GradContext& c) {
  std::vector<Var> grads;
  const int dim = value_or_throw(
      normalize_dim(c.attrs().get_int("dim"), static_cast<int>(c.output_shape(0).size())));
  std::int64_t start = 0;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const std::int64_t length = c.input_shape(i)[static_cast<std::size_t>(dim)];
    Var grad;
    if (c.needs(i)) {
      const Var part = c.call("narrow", {c.cotangent(0)},
                              {{"dim", std::int64_t{dim}}, {"start", start}, {"length", length}});
      grad = ops::grad_like(c, part, i);
    }
    grads.push_back(grad);
    start += length;
  }
  return grads;
}

}  // namespace

void add_cat_ops(OpTable& table) {
  table.must_add({.name = "cat",
                  .doc = "Tensors joined along a dim, in order.",
                  .args = {in_list("tensors")},
                  .attrs = {ops::int_attr("dim", 0)},
                  .rule = "",
                  .kernel = run_cat,
                  .infer = infer_cat,
                  .gradient = cat_gradient,
                  .strategies = cat_strategies,
                  .localize = localize_cat,
                  .lowerings = {{"d", "each rank fetches its share of the joined dim", cat_steps}},
                  .samples = {{.shapes = {{8, 6}, {8, 7}}, .attrs = {{"dim", 1}}},
                              {.shapes = {{5, 3}, {1, 3}, {2, 3}}, .attrs = {{"dim", 0}}},
                              {.shapes = {{2, 8, 3}}, .attrs = {{"dim", -1}}}}});
}

}  // namespace tessera
