// Tensors joined along a dim.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/view/index_map.h"

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

StatusOr<std::vector<Strategy>> cat_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim()));
  const auto place = static_cast<std::size_t>(dim);
  std::vector<Layout> layouts;
  std::vector<Strategy> strategies;
  for (const Spec* leader : inputs) {
    // The joined dim whole.
    Layout layout = ops::with_common_partial(leader->layout(), inputs);
    layout.dims[place].clear();
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(layout);
      TSR_ASSIGN_OR_RETURN(Strategy whole,
                           ops::laid_out(inputs, layout, outputs, layout,
                                         "the joined dim whole, all else cut alike"));
      strategies.push_back(std::move(whole));
    }
    const std::vector<int> axes = ops::axes_of(leader->layout().dims[place]);
    if (axes.empty()) continue;
    for (const int axis : axes) {
      layout.dims[place].push_back(Level::of_axis(axis));
      layout.partial[static_cast<std::size_t>(axis)].reset();
    }
    if (std::find(layouts.begin(), layouts.end(), layout) != layouts.end()) continue;
    layouts.push_back(layout);
    TSR_ASSIGN_OR_RETURN(
        Strategy cut,
        ops::laid_out(inputs, layout, outputs, layout,
                      "the joined dim stays cut, each rank fetches its share of the result"));
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

std::vector<LoweringStep> cat_steps(const Attrs& attrs) {
  const int dim = static_cast<int>(attrs.get_int("dim"));
  const Shape parts = attrs.get_ints(kParts);
  ops::Steps steps(static_cast<int>(parts.size()), 1);
  ops::Steps::Values fetched;
  std::int64_t start = 0;
  for (const ops::Steps::Value operand : steps.operands()) {
    fetched.push_back(steps.window(operand, dim, ops::window_of_part(dim, start)));
    start += parts[static_cast<std::size_t>(operand.number)];
  }
  steps.local(fetched, steps.results(), run_cat);
  return std::move(steps).take();
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
