// Tensors joined along a new dim, and tensors spread over the dims of a grid.
#include <algorithm>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/reduce/level_walk.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Strategies = StatusOr<std::vector<Strategy>>;

Metas infer_stack(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size()) + 1));
  for (const TensorMeta& input : inputs.subspan(1)) {
    if (input.shape != inputs[0].shape) {
      return invalid_argument("tensors " + to_string(inputs[0].shape) + " and " +
                              to_string(input.shape) + " must have one shape");
    }
    out.dtype = promote(out.dtype, input.dtype);
  }
  out.shape.insert(out.shape.begin() + dim, static_cast<std::int64_t>(inputs.size()));
  return std::vector<TensorMeta>{out};
}

/// Each operand's layout is offered to all, Partial where all are Partial of that kind.
Strategies stack_strategies(std::span<const Spec* const> inputs,
                            std::span<const TensorMeta> outputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, inputs[0]->ndim() + 1));
  std::vector<Layout> layouts;
  std::vector<Strategy> found;
  for (const Spec* leader : inputs) {
    const Layout layout = ops::with_common_partial(leader->layout(), inputs);
    if (std::find(layouts.begin(), layouts.end(), layout) != layouts.end()) continue;
    layouts.push_back(layout);
    Layout out = layout;
    out.dims.insert(out.dims.begin() + dim, Levels{});
    TSR_ASSIGN_OR_RETURN(Strategy strategy, ops::laid_out(inputs, layout, outputs, out,
                                                          "all cut alike, the new dim whole"));
    found.push_back(std::move(strategy));
  }
  return found;
}

void add_stack(OpTable& table) {
  table.must_add({.name = "stack",
                  .doc = "Tensors of one shape joined along a new dim, in order.",
                  .args = {in_list("tensors")},
                  .attrs = {ops::int_attr("dim", 0)},
                  .rule = "",
                  .kernel =
                      [](KernelCall& call) {
                        const Array& out = call.outputs[0];
                        const int dim = ops::kernel_dim(call, out);
                        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
                          const auto at = static_cast<std::int64_t>(i);
                          const Array slot = out.slice(dim, at, at + 1);
                          Shape shape = slot.shape(), strides = slot.strides();
                          shape.erase(shape.begin() + dim);
                          strides.erase(strides.begin() + dim);
                          kernels::copy(call.ctx, call.inputs[i],
                                        slot.as_strided(shape, strides, slot.offset()));
                        }
                      },
                  .infer = infer_stack,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    std::vector<Var> grads;
                    for (int i = 0; i < c.num_inputs(); ++i) {
                      Var grad;
                      if (c.needs(i)) {
                        grad =
                            c.call("select", {c.cotangent(0)},
                                   {{"dim", c.attrs().get_int("dim")}, {"index", std::int64_t{i}}});
                        grad = ops::grad_like(c, grad, i);
                      }
                      grads.push_back(grad);
                    }
                    return grads;
                  },
                  .strategies = stack_strategies,
                  .samples = {{.shapes = {{8, 6}, {8, 6}}, .attrs = {{"dim", 1}}},
                              {.shapes = {{5, 3}, {5, 3}, {5, 3}}, .attrs = {{"dim", 0}}},
                              {.shapes = {{5}}, .attrs = {{"dim", -1}}}}});
}

// ---- outer sums of positions: one operand per dim of the result ----

/// A tensor of one dim seen along dim `at` of a grid.
Array along(const Array& x, std::size_t at, const Shape& grid) {
  Shape strides(grid.size(), 0);
  strides[at] = x.strides()[0];
  return x.as_strided(grid, strides, x.offset());
}

Metas infer_cartesian(std::span<const TensorMeta> inputs, const Attrs&) {
  TensorMeta out = {{1, static_cast<std::int64_t>(inputs.size())}, inputs[0].dtype};
  for (const TensorMeta& input : inputs) {
    if (input.shape.size() != 1 || input.dtype != out.dtype) {
      return invalid_argument("tensors must have one dim and one dtype, not " +
                              to_string(input.shape) + " " + std::string(name_of(input.dtype)));
    }
    out.shape[0] = (CheckedInt(out.shape[0]) * input.shape[0]).clamped();
  }
  return std::vector<TensorMeta>{out};
}

/// Rows follow the first operand, whose cuts stay, on multiples of what follows; the others whole.
Strategies cartesian_strategies(std::span<const Spec* const> inputs,
                                std::span<const TensorMeta> outputs, const Attrs&) {
  const std::int64_t rows = inputs[0]->global_shape()[0];
  const std::int64_t each = rows > 0 ? outputs[0].shape[0] / rows : 0;
  Strategy strategy;
  strategy.why = "the first operand keeps its cuts, the others whole";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Layout layout = inputs[i]->layout();
    for (auto& partial : layout.partial) partial.reset();
    if (i > 0 || each == 0) layout.dims[0].clear();
    TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(inputs[i]->mesh(), inputs[i]->global_shape(),
                                               inputs[i]->dtype(), layout));
    strategy.inputs.push_back(std::move(spec));
  }
  Layout out = strategy.inputs[0].layout();
  for (Level& level : out.dims[0]) {
    if (level.sizes) {
      TSR_ASSIGN_OR_RETURN(level.sizes, level.sizes.scaled(each));
      continue;
    }
    (level.kind == Level::Kind::kRun ? level.count : level.grain) *= each;
  }
  out.dims.emplace_back();
  TSR_ASSIGN_OR_RETURN(Spec result, Spec::make(inputs[0]->mesh(), outputs[0].shape,
                                               outputs[0].dtype, std::move(out)));
  strategy.outputs.push_back(std::move(result));
  return std::vector<Strategy>{std::move(strategy)};
}

void add_cartesian(OpTable& table) {
  table.must_add(
      {.name = "cartesian_prod",
       .doc = "All combinations of the operands' elements as rows, the last operand fastest.",
       .args = {in_list("tensors")},
       .rule = "",
       .kernel =
           [](KernelCall& call) {
             const Array& out = call.outputs[0];
             Shape grid;
             for (const Array& input : call.inputs) grid.push_back(input.size(0));
             for (std::size_t i = 0; i < call.inputs.size(); ++i) {
               const auto column = static_cast<std::int64_t>(i);
               const Array target =
                   out.as_strided({out.size(0)}, {out.strides()[0]}, out.offset() + column);
               if (out.size(0) == 0) continue;
               const Array values = kernels::contiguous(call.ctx, along(call.inputs[i], i, grid));
               kernels::copy(call.ctx, values.try_view({out.size(0)}), target);
             }
           },
       .infer = infer_cartesian,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         std::vector<Var> grads;
         Shape grid;
         for (int i = 0; i < c.num_inputs(); ++i) grid.push_back(c.input_shape(i)[0]);
         for (int i = 0; i < c.num_inputs(); ++i) {
           const Var column =
               c.call("select", {c.cotangent(0)}, {{"dim", 1}, {"index", std::int64_t{i}}});
           Shape others;
           for (int d = 0; d < c.num_inputs(); ++d) {
             if (d != i) others.push_back(d);
           }
           Var grad = c.call("reshape", {column}, {{"shape", grid}});
           if (!others.empty()) {
             grad = c.call("sum", {grad}, {{"dim", others}, {"keepdim", false}});
           }
           grads.push_back(grad);
         }
         return grads;
       },
       .strategies = cartesian_strategies,
       .declined = {"P(sum) -> P(sum); P(avg) -> P(avg); P(max) -> P(max); P(min) -> P(min); "
                    "P(prod) -> P(prod): operands of one dim are small; they are reduced first"},
       .samples = {{.shapes = {{8}, {6}}}, {.shapes = {{5}, {2}, {3}}}}});
}

// ---- meshgrid ----

Metas infer_meshgrid(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const bool swaps = attrs.get_string("indexing") == "xy" && inputs.size() > 1;
  if (!swaps && attrs.get_string("indexing") != "ij" && inputs.size() > 1) {
    return invalid_argument("indexing is '" + attrs.get_string("indexing") +
                            "', but must be ij or xy");
  }
  TensorMeta out = {{}, inputs[0].dtype};
  for (const TensorMeta& input : inputs) {
    if (input.shape.size() != 1 || input.dtype != out.dtype) {
      return invalid_argument("tensors must have one dim and one dtype, not " +
                              to_string(input.shape) + " " + std::string(name_of(input.dtype)));
    }
    out.shape.push_back(input.shape[0]);
  }
  if (swaps) std::swap(out.shape[0], out.shape[1]);
  return std::vector<TensorMeta>(inputs.size(), out);
}

/// The dim of the grid along which operand `i` runs.
std::size_t grid_dim(const Attrs& attrs, std::size_t i, std::size_t count) {
  const bool swaps = attrs.get_string("indexing") == "xy" && count > 1;
  return swaps && i < 2 ? 1 - i : i;
}

/// Each operand's cut goes to its dim of every grid, unless an operand before it uses the axis.
Strategies meshgrid_strategies(std::span<const Spec* const> inputs,
                               std::span<const TensorMeta> outputs, const Attrs& attrs) {
  Strategy strategy;
  strategy.why = "each operand cuts its dim of the grid";
  Layout grid;
  grid.dims.resize(inputs.size());
  grid.partial.resize(static_cast<std::size_t>(inputs[0]->mesh().ndim()));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Layout layout = inputs[i]->layout();
    for (auto& partial : layout.partial) partial.reset();
    if ((ops::cutting_axes(layout) & ops::cutting_axes(grid)) != 0) layout.dims[0].clear();
    grid.dims[grid_dim(attrs, i, inputs.size())] = layout.dims[0];
    TSR_ASSIGN_OR_RETURN(Spec spec, Spec::make(inputs[i]->mesh(), inputs[i]->global_shape(),
                                               inputs[i]->dtype(), std::move(layout)));
    strategy.inputs.push_back(std::move(spec));
  }
  for (const TensorMeta& output : outputs) {
    TSR_ASSIGN_OR_RETURN(Spec out, Spec::make(inputs[0]->mesh(), output.shape, output.dtype, grid));
    strategy.outputs.push_back(std::move(out));
  }
  return std::vector<Strategy>{std::move(strategy)};
}

void run_meshgrid(KernelCall& call) {
  Shape grid(call.inputs.size(), 0);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    grid[grid_dim(call.attrs, i, grid.size())] = call.inputs[i].size(0);
  }
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const Array spread = along(call.inputs[i], grid_dim(call.attrs, i, grid.size()), grid);
    kernels::copy(call.ctx, spread, call.outputs[i]);
  }
}

void add_meshgrid(OpTable& table) {
  AttrDef indexing = {"indexing", AttrDef::Type::kString, {}};
  indexing.default_value.emplace(std::string("ij"));
  table.must_add(
      {.name = "meshgrid",
       .doc = "Grids in which operand i runs along dim i (indexing xy: the first two swapped).",
       .args = {in_list("tensors")},
       .attrs = {indexing},
       .rule = "",
       .num_outputs = OpDef::kAsInferred,
       .kernel = run_meshgrid,
       .infer = infer_meshgrid,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         std::vector<Var> grads;
         const auto count = static_cast<std::size_t>(c.num_inputs());
         for (std::size_t i = 0; i < count; ++i) {
           Var grad = c.cotangent(static_cast<int>(i));
           Shape others;
           for (std::size_t d = 0; d < count; ++d) {
             if (d != grid_dim(c.attrs(), i, count)) others.push_back(static_cast<std::int64_t>(d));
           }
           if (grad.defined() && !others.empty()) {
             grad = c.call("sum", {grad}, {{"dim", others}, {"keepdim", false}});
           }
           grads.push_back(grad);
         }
         return grads;
       },
       .strategies = meshgrid_strategies,
       .declined =
           {"P(sum) -> P(sum), P(sum); P(avg) -> P(avg), P(avg); P(max) -> P(max), P(max); "
            "P(min) -> P(min), P(min); P(prod) -> P(prod), P(prod): operands of one dim are "
            "small; they are reduced first"},
       .samples = {{.shapes = {{8}, {6}}},
                   {.shapes = {{5}, {2}, {3}}, .attrs = {{"indexing", std::string("xy")}}}}});
}

}  // namespace

void add_join_stack_ops(OpTable& table) {
  add_stack(table);
  add_cartesian(table);
  add_meshgrid(table);
}

}  // namespace tessera
