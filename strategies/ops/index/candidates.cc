#include "strategies/ops/index/candidates.h"

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/select.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera::ops {

Array swapped_to_front(KernelContext& ctx, const Array& x, int dim) {
  return kernels::contiguous(ctx, x.transpose(0, dim));
}

Candidates make_candidates(KernelCall& call, const Candidates& local, int dim) {
  globalize_positions(call.ctx, call.input_views[0], {&dim, 1}, local.indices);
  return {swapped_to_front(call.ctx, local.values, dim),
          swapped_to_front(call.ctx, local.indices, dim)};
}

Candidates by_index(KernelCall& call, const Candidates& joined) {
  const Shape& shape = joined.indices.shape();
  const auto& allocator = call.ctx.allocator;
  Candidates sorted = {Array::empty(shape, joined.values.dtype(), allocator),
                       Array::empty(shape, DType::kI64, allocator)};
  const Array order = Array::empty(shape, DType::kI64, allocator);
  kernels::sort(call.ctx, joined.indices, 0, kernels::Order::kAscending, sorted.indices, order);
  kernels::gather(call.ctx, joined.values, 0, order, kernels::Absent::kError, sorted.values);
  return sorted;
}

std::vector<LoweringStep> selection_steps(int num_outputs, Kernel select, Kernel choose) {
  Steps steps(1, num_outputs);
  const auto values = steps.value(), indices = steps.value();
  steps.local({steps.operand(0)}, {values, indices}, std::move(select));
  const auto all_values = steps.gather(values), all_indices = steps.gather(indices);
  steps.local({all_values, all_indices}, steps.results(), std::move(choose));
  return std::move(steps).take();
}

}  // namespace tessera::ops
