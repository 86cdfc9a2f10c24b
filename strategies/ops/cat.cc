// Tensors joined along a dim.
#include <algorithm>

#include "kernels/elementwise.h"
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
    out.shape[place] += input.shape[place];
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

StatusOr<std::vector<Strategy>> cat_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim()));
  std::vector<Layout> layouts;
  for (const Spec* leader : inputs) {
    Layout layout = joint_layout(*leader, inputs, static_cast<std::size_t>(dim));
    if (std::find(layouts.begin(), layouts.end(), layout) == layouts.end()) {
      layouts.push_back(std::move(layout));
    }
  }
  std::vector<Strategy> strategies;
  for (const Layout& layout : layouts) {
    Strategy strategy;
    strategy.why = "the joined dim whole, all else cut alike";
    for (const Spec* input : inputs) {
      TSR_ASSIGN_OR_RETURN(
          Spec spec, Spec::make(input->mesh(), input->global_shape(), input->dtype(), layout));
      strategy.inputs.push_back(std::move(spec));
    }
    TSR_ASSIGN_OR_RETURN(Spec out,
                         Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype, layout));
    strategy.outputs.push_back(std::move(out));
    strategies.push_back(std::move(strategy));
  }
  return strategies;
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
                  .declined = {"S(dim): the joined cuts are no canonical cut of the result"},
                  .samples = {{.shapes = {{8, 6}, {8, 2}}, .attrs = {{"dim", 1}}},
                              {.shapes = {{5, 3}, {1, 3}, {2, 3}}, .attrs = {{"dim", 0}}},
                              {.shapes = {{2, 8, 3}}, .attrs = {{"dim", -1}}}}});
}

}  // namespace tessera
