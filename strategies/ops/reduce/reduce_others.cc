// For each element the product of all others of its row: what the gradient of a product is made of.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/row_fold.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

/// `rows` (kept dims..., n), contiguous, with its dims where x has them.
Array in_place_of(const Array& rows, const Array& x, const std::vector<int>& dims) {
  const Shape kept = ops::kept_shape(contiguous_strides(rows.shape()), {rows.ndim() - 1});
  Shape strides(x.shape().size(), 0);
  std::int64_t step = 1;
  for (std::size_t k = dims.size(); k-- > 0;) {
    strides[static_cast<std::size_t>(dims[k])] = step;
    step *= x.size(dims[k]);
  }
  std::size_t next = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
    if (!reduced) strides[d] = kept[next++];
  }
  return rows.as_strided(x.shape(), strides, 0);
}

/// x → the products of others on this rank; returns the product of each row, with the reduced dims
/// at size 1.
Array own_products(KernelCall& call) {
  const Array& x = call.inputs[0];
  const std::vector<int> dims = ops::kernel_dims(call);
  const Array rows = ops::rows_of(call.ctx, x, dims);
  const Array others = ops::scratch(call, rows.shape(), DType::kF64);
  Shape kept = x.shape();
  for (const int dim : dims) kept[static_cast<std::size_t>(dim)] = 1;
  const Array totals = ops::scratch(call, kept, DType::kF64);
  kernels::products_of_others(call.ctx, rows, others, totals);
  kernels::copy(call.ctx, in_place_of(others, x, dims), call.outputs[0]);
  return totals;
}

/// The rank's number on its mesh, by which it knows its own part among all.
double number_of(const OperandView& view) {
  std::int64_t number = 0;
  for (int axis = 0; axis < view.spec->mesh().ndim(); ++axis) {
    number = number * view.spec->mesh().size(axis) + (*view.coord)[static_cast<std::size_t>(axis)];
  }
  return static_cast<double>(number);
}

/// x → its own products, the product of each row (1, …), and the rank's number (1).
void own_part(KernelCall& call) {
  const Array totals = own_products(call);
  Shape part = totals.shape();
  part.insert(part.begin(), 1);
  call.outputs[1] = totals.try_view(part);
  call.outputs[2] = ops::scratch(call, {1}, DType::kF64);
  kernels::fill(call.ctx, number_of(call.input_views[0]), call.outputs[2]);
}

/// All ranks' totals and numbers: those of others are factors, too.
void join_parts(KernelCall& call) {
  const Array &totals = call.inputs[0], &out = call.outputs[0];
  const std::vector<double> numbers = call.inputs[1].to_vector();
  const double own = number_of(call.output_views[0]);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (numbers[k] == own) continue;
    const auto at = static_cast<std::int64_t>(k);
    const Array part = totals.slice(0, at, at + 1);
    const Shape kept(part.shape().begin() + 1, part.shape().end());
    kernels::binary(call.ctx, kernels::Binary::kMul, out, part.try_view(kept), out);
  }
}

}  // namespace

void add_reduce_others_ops(OpTable& table) {
  OpDef def =
      ops::reduction("prod_of_others",
                     "For each element the product of all others over dims: what a "
                     "product's cotangent is multiplied by.",
                     "*r@dim -> *r | r! | prod A", [](KernelCall& call) { own_products(call); });
  def.attrs.pop_back();  // keepdim
  def.infer = [](std::span<const TensorMeta> inputs,
                 const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
    TSR_RETURN_IF_ERROR(ops::dims_attr(attrs, static_cast<int>(inputs[0].shape.size())).status());
    return ops::infer_floating(inputs, attrs);
  };
  def.lowerings = {{"r", "each rank's own products, and the totals of the others",
                    [](const Attrs&) -> std::vector<LoweringStep> {
                      ops::Steps steps(1, 1);
                      const auto total = steps.value(), number = steps.value();
                      steps.local({steps.operand(0)}, {steps.result(), total, number}, own_part);
                      const auto totals = steps.gather(total), numbers = steps.gather(number);
                      steps.local({totals, numbers}, {steps.result()}, join_parts);
                      return std::move(steps).take();
                    }}};
  for (Sample& sample : def.samples) {
    Attrs own;
    for (const auto& [name, value] : sample.attrs) {
      if (name == "dim") own.set(name, value);
    }
    sample.attrs = own;
    sample.differentiable = false;
  }
  table.must_add(std::move(def));
}

}  // namespace tessera
