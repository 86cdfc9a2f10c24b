#include "strategies/ops/attention/attention_parts.h"

#include <limits>

#include "kernels/elementwise.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera::ops {
namespace {

using kernels::Binary;
using kernels::Unary;

constexpr double kMost = std::numeric_limits<double>::infinity();

Array column(const Array& x) { return with_unit_dim(x, x.ndim()); }

/// In: this rank's result and log-sum, the largest log-sum. Out: e^(own − largest), the result
/// times it.
void weigh(KernelCall& call) {
  const Array& lse = call.inputs[1];
  const DType dtype = lse.dtype();
  const Array largest = scratch(call, lse.shape(), dtype);
  // A row that sees no key anywhere has −inf, from which nothing can be subtracted.
  kernels::clamp(call.ctx, call.inputs[2], -static_cast<double>(std::numeric_limits<float>::max()),
                 kMost, largest);
  const Array weights = scratch(call, lse.shape(), dtype);
  kernels::binary(call.ctx, Binary::kSub, lse, largest, weights);
  kernels::unary(call.ctx, Unary::kExp, weights, weights);
  call.outputs[0] = weights;
  call.outputs[1] = scratch(call, call.inputs[0].shape(), dtype);
  kernels::binary(call.ctx, Binary::kMul, call.inputs[0], column(weights), call.outputs[1]);
}

/// In: the largest log-sum, the sum of weights and of weighted results over the ranks.
void finish(KernelCall& call) {
  const Array& sum = call.inputs[1];
  const Array divisor = scratch(call, sum.shape(), sum.dtype());
  // The rank with the largest log-sum has weight 1: a smaller sum is that of a row without keys.
  kernels::clamp(call.ctx, sum, 1.0, kMost, divisor);
  kernels::binary(call.ctx, Binary::kDiv, call.inputs[2], column(divisor), call.outputs[0]);
  if (call.outputs.size() == 1) return;
  const Array& lse = call.outputs[1];
  kernels::unary(call.ctx, Unary::kLog, sum, lse);
  kernels::binary(call.ctx, Binary::kAdd, lse, call.inputs[0], lse);
}

}  // namespace

std::vector<Piece> pieces_of(const KernelCall& call, std::size_t operand, int dim) {
  const std::int64_t size = call.inputs[operand].size(dim);
  const OperandView view =
      operand < call.input_views.size() ? call.input_views[operand] : OperandView{};
  if (view.spec == nullptr || view.spec->layout().dims[static_cast<std::size_t>(dim)].empty())
    return {{0, 0, size}};
  std::vector<Piece> pieces;
  std::int64_t local = 0;
  for (const Interval& run : held_part(view, dim).held) {
    pieces.push_back({local, run.start, run.stop - run.start});
    local += pieces.back().size;
  }
  if (pieces.empty()) pieces.push_back({});
  return pieces;
}

void attend(KernelContext& ctx, const AttentionOperands& operands,
            const kernels::AttentionOptions& options, const std::vector<Piece>& queries,
            const std::vector<Piece>& keys, const Array& out, const Array& lse) {
  if (!options.causal) {
    kernels::attention(ctx, operands.query, operands.key, operands.value, options, out, lse);
    return;
  }
  for (const Piece& rows : queries) {
    kernels::AttentionOptions own = options;
    own.causal_offset += rows.global - keys.front().global;
    const std::int64_t stop = rows.local + rows.size;
    kernels::attention(ctx, operands.query.slice(2, rows.local, stop), operands.key, operands.value,
                       own, out.slice(2, rows.local, stop), lse.slice(2, rows.local, stop));
  }
}

std::vector<LoweringStep> joined_over_keys(int num_operands, int num_results, Kernel own) {
  Steps steps(num_operands, num_results);
  const auto result = steps.value(), lse = steps.value(), largest = steps.value(),
             weight = steps.value(), weighted = steps.value();
  steps.local(steps.operands(), {result, lse}, std::move(own));
  steps.all_reduce({lse}, {largest}, ReduceOp::kMax);
  steps.local({result, lse, largest}, {weight, weighted}, weigh);
  steps.all_reduce({weight}, ReduceOp::kSum);
  steps.all_reduce({weighted}, ReduceOp::kSum);
  steps.local({largest, weight, weighted}, steps.results(), finish);
  return std::move(steps).take();
}

}  // namespace tessera::ops
