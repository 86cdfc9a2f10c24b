#include "moe/layer/router.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "dtensor/factories.h"
#include "dtensor/recompute.h"
#include "kernels/route.h"
#include "moe/layer/capacity.h"
#include "moe/layer/forced_routing.h"

namespace tessera {
namespace {

/// By an op, so that a program of ops has it.
DTensor bools_like(const DTensor& x, bool value) {
  return full_like(x.detach(), value ? 1.0 : 0.0, DType::kBool);
}

}  // namespace

DTensor limit_groups(const DTensor& choice_BLE, std::int64_t groups, std::int64_t limited) {
  const DTensor by_group =
      unflatten(choice_BLE, -1, {groups, choice_BLE.size(-1) / groups});  // (B, L, G, E/G)
  const DTensor score_BLG = sum(topk(by_group, 2, -1).first, {-1});
  const DTensor kept = topk(score_BLG, limited, -1).second;
  DTensor dropped_BLG = bools_like(score_BLG, true);
  scatter_(dropped_BLG, -1, kept, 0.0);
  const double lowest = -std::numeric_limits<double>::infinity();
  return flatten(masked_fill(by_group, unsqueeze(dropped_BLG, -1), lowest), -2, -1);
}

DTensor token_numbers(const LayerContext& context, std::int64_t num_sequences) {
  const Shape shape = {num_sequences, context.config.seq};
  const Array numbers = Array::empty(shape, DType::kI64);
  std::iota(numbers.data<std::int64_t>(), numbers.data<std::int64_t>() + num_elements(shape), 0);
  return redistribute(context.place_tokens(numbers), context.routed_tokens());
}

DTensor routing_map(const DTensor& scores_BLE, const DTensor& ids_BLK) {
  DTensor map_BLE = bools_like(scores_BLE, false);
  scatter_(map_BLE, -1, ids_BLK, 1.0);
  return map_BLE;
}

namespace {

DTensor score(ScoreFunction function, const DTensor& logits_BLE) {
  switch (function) {
    case ScoreFunction::kSoftmax:
      return softmax(logits_BLE, -1);
    case ScoreFunction::kSigmoid:
      return sigmoid(logits_BLE);
    case ScoreFunction::kSqrtSoftplus:
      break;
  }
  return sqrt(softplus(logits_BLE));
}

/// Assignment n = t·K + k goes to expert n mod E.
DTensor balanced_ids(const LayerContext& context, const DTensor& scores_BLE) {
  const MoeConfig& c = context.config;
  const DTensor token_BL1 = unsqueeze(token_numbers(context, scores_BLE.size(0)), -1);
  const DTensor slot_K = arange(context.runtime, {.end = static_cast<double>(c.router_top_k)},
                                {.mesh = context.views.dense(),
                                 .placements = context.views.on_dense({}),
                                 .dtype = DType::kI64});
  const DTensor slot_BLK = add(mul(token_BL1, static_cast<double>(c.router_top_k)), slot_K);
  return remainder(slot_BLK, static_cast<double>(c.num_experts));
}

/// As the loads of experts say.
DTensor loaded_ids(const LayerContext& context, std::int64_t num_sequences) {
  const MoeConfig& c = context.config;
  const ForcedRouting routing(c);
  std::vector<std::int64_t> ids;
  for (std::int64_t token = 0; token < num_sequences * c.seq; ++token) {
    routing.append_experts(token, ids);
  }
  const Array ids_BLK = Array::empty({num_sequences, c.seq, c.router_top_k}, DType::kI64);
  std::ranges::copy(ids, ids_BLK.data<std::int64_t>());
  return redistribute(context.place_tokens(ids_BLK), context.routed_tokens());
}

/// Of the best groups, or forced.
DTensor steered_ids(const LayerContext& context, const DTensor& scores_BLE,
                    const DTensor& expert_bias_E) {
  const MoeConfig& c = context.config;
  if (c.routing.force_balance) return balanced_ids(context, scores_BLE);
  if (c.routing.is_forced()) return loaded_ids(context, scores_BLE.size(0));
  DTensor choice_BLE = scores_BLE.detach();
  if (expert_bias_E.defined()) choice_BLE = add(choice_BLE, expert_bias_E);
  return topk(limit_groups(choice_BLE, *c.groups, *c.limited), c.router_top_k, -1).second;
}

/// Scores of the chosen experts, in the ways that weights are made of them.
DTensor weights_of(const MoeConfig& config, const DTensor& scores_BLE, const DTensor& ids_BLK) {
  DTensor weights = gather(scores_BLE, -1, ids_BLK);
  if (config.route_norm) {
    weights = div(weights, add(sum(weights, {-1}, KeepDim::kYes), kernels::kShareGuard));
  }
  return config.route_scale == 1.0 ? weights : mul(weights, config.route_scale);
}

void choose_steered(const LayerContext& context, const DTensor& expert_bias_E, Routing& routing) {
  routing.scores_BLE = score(context.config.score_func, routing.logits_BLE);
  {
    const NoGrad no_grad(context.runtime);
    routing.ids_BLK = kept_tensor(
        context.runtime, [&] { return steered_ids(context, routing.scores_BLE, expert_bias_E); });
  }
  routing.weights_BLK = weights_of(context.config, routing.scores_BLE, routing.ids_BLK);
}

std::string_view score_name(ScoreFunction function) {
  switch (function) {
    case ScoreFunction::kSoftmax:
      return "softmax";
    case ScoreFunction::kSigmoid:
      return "sigmoid";
    case ScoreFunction::kSqrtSoftplus:
      break;
  }
  return "sqrt_softplus";
}

/// By one op. ids_BLK: chosen before; undefined: none were.
void route_freely(const MoeConfig& c, const DTensor& expert_bias_E, const DTensor& ids_BLK,
                  Routing& routing) {
  auto [scores, ids, weights] =
      route_topk(routing.logits_BLE, c.router_top_k, expert_bias_E, ids_BLK,
                 score_name(c.score_func), c.route_norm, c.route_scale);
  routing.scores_BLE = std::move(scores);
  routing.ids_BLK = std::move(ids);
  routing.weights_BLK = std::move(weights);
}

void choose_freely(const LayerContext& context, const DTensor& expert_bias_E, Routing& routing) {
  const DTensor kept_BLK = kept_tensor(context.runtime, [&] {
    route_freely(context.config, expert_bias_E, {}, routing);
    return routing.ids_BLK;
  });
  // A second pass that has them routes by them, whatever has become of the bias since.
  if (!routing.ids_BLK.defined()) route_freely(context.config, {}, kept_BLK, routing);
}

/// Fills in the map without padding, and both counts. Returns BOOL (B, L, K): true where an
/// assignment is not dispatched; undefined where all are.
DTensor count_assignments(const LayerContext& context, Routing& routing) {
  const NoGrad no_grad(context.runtime);
  const bool limited = context.config.routing.capacity_factor.has_value();
  if (routing.padding.mask_BL.defined()) {
    routing.map_BLE = masked_fill(routing.map_BLE, unsqueeze(routing.padding.mask_BL, -1), 0.0);
  }
  routing.chosen_E = sum(routing.map_BLE, {0, 1});
  routing.counts_E = routing.chosen_E;
  if (!routing.padding.mask_BL.defined() && !limited) return {};
  const DTensor dispatched_BLE = limited ? map_within_capacity(context, routing) : routing.map_BLE;
  if (limited) routing.counts_E = sum(dispatched_BLE, {0, 1});
  return logical_not(gather(dispatched_BLE, -1, routing.ids_BLK));
}

}  // namespace

Router::Router(const LayerContext& context, const std::string& name, std::int64_t layer)
    : name_(name),
      gate_(&context.declare(name + ".gate.weight",
                             {context.config.num_experts, context.config.dim}, Replicate{},
                             truncated_init(depth_std(layer)), context.score_dtype())) {}

DTensor Router::logits(const LayerContext& context, const DTensor& x_BLD) const {
  const DType dtype = context.score_dtype();
  DTensor x = x_BLD.dtype() == dtype ? x_BLD : cast(x_BLD, dtype);
  const double jitter = context.config.routing.input_jitter;
  if (jitter > 0.0) {
    // The pass seeds the noise, so that a recomputed pass sees the same.
    DTensor noise = zeros_like(x.detach());
    uniform_(noise, 1.0 - jitter, 1.0 + jitter,
             {.seed = context.runtime.pass, .stream = name_ + ".jitter"});
    x = mul(x, noise);
  }
  return linear(x, gate_->use(dtype));
}

Routing Router::operator()(const LayerContext& context, const DTensor& x_BLD,
                           const RouterState& state) const {
  const MoeConfig& c = context.config;
  Routing routing;
  routing.logits_BLE = logits(context, x_BLD);
  routing.padding = state.padding;
  if (c.groups || c.routing.is_forced()) {
    choose_steered(context, state.expert_bias_E, routing);
  } else {
    choose_freely(context, state.expert_bias_E, routing);
  }
  {
    const NoGrad no_grad(context.runtime);
    routing.map_BLE = routing_map(routing.scores_BLE.detach(), routing.ids_BLK);
  }
  const DTensor absent_BLK = count_assignments(context, routing);
  if (!absent_BLK.defined()) return routing;
  const bool keeps_ids = context.form == LayerForm::kOps;  // a weight of 0 leaves a token out
  if (!keeps_ids) {
    routing.ids_BLK = masked_fill(routing.ids_BLK, absent_BLK, static_cast<double>(c.num_experts));
  }
  routing.weights_BLK = masked_fill(routing.weights_BLK, absent_BLK, 0.0);
  return routing;
}

}  // namespace tessera
