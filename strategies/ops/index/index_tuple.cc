// Reads and writes addressed by several indices at once (advanced indexing). Dims that no index
// addresses keep their cuts; on a cut addressed dim each rank serves what it holds.
#include "kernels/index_tuple.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/index/index_tuple_cuts.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;
using Specs = std::span<const Spec* const>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

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
                       ops::addressed_dims(attrs, inputs[0].shape.size(), inputs.size() - 1));
  TSR_ASSIGN_OR_RETURN(const Shape tuple, tuple_of(inputs.subspan(1)));
  return std::vector<TensorMeta>{
      {kernels::tuple_shape(inputs[0].shape, dims, tuple), inputs[0].dtype}};
}

Metas infer_index_put(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const std::vector<int> dims,
                       ops::addressed_dims(attrs, inputs[0].shape.size(), inputs.size() - 2));
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

// ---- kernels ----

/// The local tuple of a call whose indices are operands from `first` on.
kernels::IndexTuple local_tuple(KernelCall& call, std::string_view op, std::size_t first) {
  kernels::IndexTuple tuple;
  tuple.dims = value_or_throw(
      ops::addressed_dims(call.attrs, call.inputs[0].shape().size(), call.inputs.size() - first));
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
       .strategies = ops::index_strategies,
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
  OpDef put = {.name = "index_put",
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
               .strategies =
                   [](Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs) {
                     return ops::put_strategies(inputs, outputs, attrs, ops::TupleSelf::kMayMove);
                   },
               .declined = {"P(max), R, R -> P(max); P(min), R, R -> P(min): added values may be "
                            "infinite, where a rank that holds the opposite infinity of self gives "
                            "NaN, and integers wrap"},
               .samples = put_samples()};
  OpDef in_place = put;
  in_place.name = "index_put_";
  in_place.doc += " In place.";
  in_place.rule = "*, *, *.. -> &A *";
  in_place.strategies = [](Specs inputs, std::span<const TensorMeta> outputs, const Attrs& attrs) {
    return ops::put_strategies(inputs, outputs, attrs,
                               ops::TupleSelf::kStays);  // self stays as it is
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
