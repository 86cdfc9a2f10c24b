// The extreme along dims with its position. Where a dim is cut, every rank puts up its own
// candidate with its index in the whole tensor.
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/reduce.h"
#include "strategies/ops/index/candidates.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using kernels::Extreme;

StatusOr<std::vector<TensorMeta>> infer_arg(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto both, ops::infer_selected(inputs, attrs));
  return std::vector<TensorMeta>{both[1]};
}

/// Values and positions within rows, of the kept dims' shape.
template <Extreme kWhich>
ops::Candidates select(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Array rows = ops::rows_of(call.ctx, x, ops::kernel_dims(call));
  const Shape kept(rows.shape().begin(), rows.shape().end() - 1);
  const ops::Candidates chosen = {ops::scratch(call, kept, x.dtype()),
                                  ops::scratch(call, kept, DType::kI64)};
  kernels::arg_extreme(call.ctx, kWhich, rows, rows.ndim() - 1, chosen.values, chosen.indices);
  return chosen;
}

/// (values, indices) or indices alone, as the op's results say.
void store(KernelCall& call, const ops::Candidates& chosen) {
  kernels::copy(call.ctx, chosen.indices, ops::as_kept(call, call.outputs.back()));
  if (call.outputs.size() == 1) return;
  kernels::copy(call.ctx, chosen.values, ops::as_kept(call, call.outputs[0]));
}

template <Extreme kWhich>
void run_select(KernelCall& call) {
  store(call, select<kWhich>(call));
}

/// This rank's extreme as a list of one; of none where its shard is empty.
template <Extreme kWhich>
void select_own(KernelCall& call) {
  const Array& x = call.inputs[0];
  const std::vector<int> dims = ops::kernel_dims(call);
  Shape shape = ops::kept_shape(x.shape(), dims);
  const bool empty = ops::row_size(call.attrs, x.shape()) == 0;
  shape.insert(shape.begin(), empty ? 0 : 1);
  if (empty) {
    call.outputs[0] = ops::scratch(call, shape, x.dtype());
    call.outputs[1] = ops::scratch(call, shape, DType::kI64);
    return;
  }
  const ops::Candidates own = select<kWhich>(call);
  globalize_positions(call.ctx, call.input_views[0], dims, own.indices);
  call.outputs[0] = own.values.try_view(shape);
  call.outputs[1] = own.indices.try_view(shape);
}

/// The extreme of all ranks' candidates; the lower index wins ties.
template <Extreme kWhich>
void choose(KernelCall& call) {
  const ops::Candidates all = ops::by_index(call, {call.inputs[0], call.inputs[1]});
  Shape one = all.values.shape();
  one[0] = 1;
  const Array values = ops::scratch(call, one, all.values.dtype());
  const Array places = ops::scratch(call, one, DType::kI64);
  const Array indices = ops::scratch(call, one, DType::kI64);
  kernels::arg_extreme(call.ctx, kWhich, all.values, 0, values, places);
  kernels::gather(call.ctx, all.indices, 0, places, kernels::Absent::kError, indices);
  const Shape kept(one.begin() + 1, one.end());
  store(call, {values.try_view(kept), indices.try_view(kept)});
}

template <Extreme kWhich>
OpDef selection(std::string name, std::string doc, int num_outputs) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {},
          .rule = num_outputs == 1 ? "*r@dim -> * int | r!" : "*r@dim -> *, * int | r!",
          .num_outputs = num_outputs,
          .kernel = run_select<kWhich>,
          .infer = num_outputs == 1 ? infer_arg : ops::infer_selected,
          .lowerings = {{"r", "each rank's extreme, joined; the lower index wins ties",
                         [num_outputs](const Attrs&) {
                           return ops::selection_steps(num_outputs, select_own<kWhich>,
                                                       choose<kWhich>);
                         }}},
          .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                      {.shapes = {{8, 3}},
                       .attrs = {{"dim", 0}, {"keepdim", true}},
                       .dtypes = {DType::kI64},
                       .below = {3},
                       .differentiable = false},
                      {.shapes = {{5, 3}}, .attrs = {{"dim", -2}}}}};
}

template <Extreme kWhich>
void add_extremes(OpTable& table, const std::string& which, const std::string& adjective) {
  OpDef arg = selection<kWhich>("arg" + which,
                                "Index of the " + adjective +
                                    " element along a dim, or in the flattened tensor; NaN counts "
                                    "as it, and the first of equals wins.",
                                1);
  arg.attrs = {ops::int_attr_or_none("dim"), ops::bool_attr("keepdim", false)};
  for (const DType dtype : {DType::kF64, DType::kI64}) {
    for (const Shape& shape : {Shape{6, 7}, Shape{8, 6}, Shape{7, 9}}) {
      arg.samples.push_back({.shapes = {shape}, .dtypes = {dtype}, .adjust = ops::mix_numbers});
    }
    arg.samples.push_back(
        {.shapes = {{5, 2, 3}}, .attrs = {{"keepdim", true}}, .dtypes = {dtype}, .below = {4}});
  }
  for (Sample& sample : arg.samples) sample.differentiable = false;
  table.must_add(std::move(arg));

  OpDef both = selection<kWhich>(which + "_dim",
                                 "The " + adjective +
                                     " element along a dim and its index; NaN counts as it, and "
                                     "the first of equals wins.",
                                 2);
  both.attrs = {ops::int_attr("dim"), ops::bool_attr("keepdim", false)};
  both.gradient = ops::selected_gradient;
  both.saved_outputs = {1};
  table.must_add(std::move(both));
}

}  // namespace

void add_extreme_ops(OpTable& table) {
  add_extremes<Extreme::kMax>(table, "max", "largest");
  add_extremes<Extreme::kMin>(table, "min", "smallest");
}

}  // namespace tessera
