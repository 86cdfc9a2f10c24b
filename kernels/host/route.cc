#include "kernels/route.h"

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"
#include "kernels/index_check.h"
#include "kernels/kernel_table.h"
#include "kernels/norm.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"
#include "kernels/route_steps.h"
#include "kernels/select.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {
namespace {

constexpr const char* kRoute = "route_topk";

void write_scores(KernelContext& ctx, RouteScore function, const Array& logits,
                  const Array& scores) {
  switch (function) {
    case RouteScore::kSoftmax:
      return softmax(ctx, logits, logits.ndim() - 1, scores);
    case RouteScore::kSigmoid:
      return unary(ctx, Unary::kSigmoid, logits, scores);
    case RouteScore::kSqrtSoftplus:
      break;
  }
  const Array operands[] = {logits};
  const double params[] = {1.0, 20.0};
  pointwise(ctx, pointwise_function("softplus"), operands, params, scores);
  unary(ctx, Unary::kSqrt, scores, scores);
}

/// The ids, and the scores there as weights.
void choose_experts(KernelContext& ctx, const Array& bias_E, const RouteResults& to) {
  const int last = to.scores.ndim() - 1;
  if (bias_E.is_null()) {
    return topk(ctx, to.scores, last, Order::kDescending, to.weights, to.ids);
  }
  const Array choice = Array::empty(to.scores.shape(), to.scores.dtype(), ctx.allocator);
  binary(ctx, Binary::kAdd, to.scores, bias_E, choice);
  topk(ctx, choice, last, Order::kDescending, to.weights, to.ids);
  gather(ctx, to.scores, last, to.ids, Absent::kError, to.weights);
}

void take_given(KernelContext& ctx, const Array& ids, const RouteResults& to) {
  const int last = to.scores.ndim() - 1;
  check_indices(ctx, ids, {kRoute, to.scores.size(last)});
  copy(ctx, ids, to.ids);
  gather(ctx, to.scores, last, to.ids, Absent::kError, to.weights);
}

void weigh_shares(KernelContext& ctx, const Array& weights) {
  const int last = weights.ndim() - 1;
  Shape rows = weights.shape();
  rows.back() = 1;
  const Array sums = Array::empty(rows, weights.dtype(), ctx.allocator);
  const int dims[] = {last};
  reduce(ctx, ReduceOp::kSum, weights, dims, sums);
  binary_scalar(ctx, Binary::kAdd, sums, kShareGuard, sums);
  binary(ctx, Binary::kDiv, weights, sums, weights);
}

void require_dtype(const char* name, const Array& x, DType dtype) {
  if (x.dtype() == dtype) return;
  throw_dtype(kRoute, x.dtype(), absl::StrFormat("%s for %s", to_absl(name_of(dtype)), name));
}

}  // namespace

void check_route(const RouteOperands& from, const RouteResults& to) {
  const Array& logits = from.logits;
  require_floating(kRoute, logits.dtype());
  require_dim(kRoute, logits, logits.ndim() - 1);
  require_shape(kRoute, "scores", to.scores, logits.shape());
  Shape chosen = logits.shape();
  if (to.ids.ndim() == logits.ndim()) {
    chosen.back() = std::min(chosen.back(), to.ids.size(logits.ndim() - 1));
  }
  require_shape(kRoute, "ids", to.ids, chosen);
  require_shape(kRoute, "weights", to.weights, chosen);
  require_dtype("scores", to.scores, logits.dtype());
  require_dtype("weights", to.weights, logits.dtype());
  require_dtype("ids", to.ids, DType::kI64);
  if (!from.bias_E.is_null()) {
    require_shape(kRoute, "bias", from.bias_E, {logits.shape().back()});
    require_dtype("bias", from.bias_E, logits.dtype());
  }
  if (!from.ids.is_null()) {
    require_shape(kRoute, "the ids given", from.ids, chosen);
    require_dtype("the ids given", from.ids, DType::kI64);
  }
}

void route_in_steps(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                    const RouteResults& to) {
  write_scores(ctx, options.score, from.logits, to.scores);
  if (from.ids.is_null()) {
    choose_experts(ctx, from.bias_E, to);
  } else {
    take_given(ctx, from.ids, to);
  }
  if (options.weights == RouteWeights::kShares) weigh_shares(ctx, to.weights);
  if (options.scale != 1.0) {
    binary_scalar(ctx, Binary::kMul, to.weights, options.scale, to.weights);
  }
}

void cpu::route_topk(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                     const RouteResults& to) {
  check_route(from, to);
  route_in_steps(ctx, options, from, to);
}

}  // namespace tessera::kernels
