#include "moe/router.h"

#include <limits>
#include <numeric>
#include <utility>

#include "dtensor/recompute.h"

namespace tessera {
namespace {

constexpr double kWeightSumGuard = 1e-20;

DTensor bools_like(const DTensor& x, bool value) {
  return cast(value ? ones_like(x) : zeros_like(x), DType::kBool);
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

DTensor routing_map(const DTensor& scores_BLE, const DTensor& ids_BLK) {
  DTensor map_BLE = bools_like(scores_BLE, false);
  scatter_(map_BLE, -1, ids_BLK, 1.0);
  return map_BLE;
}

Router::Router(const ModelContext& context, const std::string& name, std::int64_t layer)
    : gate_(&context.declare(name + ".gate.weight",
                             {context.config.num_experts, context.config.dim}, Replicate{},
                             truncated_init(depth_std(layer)), context.score_dtype())) {}

Routing Router::operator()(const ModelContext& context, const DTensor& x_BLD,
                           const DTensor& expert_bias_E) const {
  const ModelConfig& c = context.config;
  const DType dtype = context.score_dtype();
  const DTensor logits_BLE =
      linear(x_BLD.dtype() == dtype ? x_BLD : cast(x_BLD, dtype), gate_->use(dtype));
  const DTensor scores_BLE =
      c.score_func == ScoreFunction::kSoftmax ? softmax(logits_BLE, -1) : sigmoid(logits_BLE);

  Routing routing;
  {
    const NoGrad no_grad(context.runtime);
    DTensor choice_BLE = scores_BLE.detach();
    if (expert_bias_E.defined()) choice_BLE = add(choice_BLE, expert_bias_E);
    if (c.groups) choice_BLE = limit_groups(choice_BLE, *c.groups, *c.limited);
    routing.ids_BLK =
        kept_tensor(context.runtime, [&] { return topk(choice_BLE, c.router_top_k, -1).second; });
    routing.counts_E = sum(routing_map(choice_BLE, routing.ids_BLK), {0, 1});
  }
  DTensor weights = gather(scores_BLE, -1, routing.ids_BLK);
  if (c.route_norm) {
    weights = div(weights, add(sum(weights, {-1}, KeepDim::kYes), kWeightSumGuard));
  }
  routing.weights_BLK = c.route_scale == 1.0 ? weights : mul(weights, c.route_scale);
  return routing;
}

LoadBalancer::LoadBalancer(const ModelContext& context, const std::string& name)
    : runtime_(&context.runtime), coefficient_(context.config.bias_coeff) {
  if (!coefficient_) return;
  const Placements replicated = context.views.on_dense({});
  bias_E_ = zeros(context.runtime,
                  value_or_throw(Spec::make(context.views.dense(), {context.config.num_experts},
                                            context.score_dtype(), replicated)));
  bias_E_.set_name(name + ".expert_bias_E");
}

void LoadBalancer::count(const DTensor& counts_E) {
  if (is_recomputing(*runtime_)) return;
  const NoGrad no_grad(*runtime_);
  counts_E_ = counts_E_.defined() ? add(counts_E_, counts_E) : counts_E;
}

void LoadBalancer::update(const std::vector<std::int64_t>& counts) {
  counts_E_ = {};
  if (!coefficient_) return;
  const NoGrad no_grad(*runtime_);
  const auto total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const double mean_count = total / static_cast<double>(counts.size());
  std::vector<double> step;
  for (const std::int64_t count : counts) {
    const double gap = mean_count - static_cast<double>(count);
    step.push_back(*coefficient_ * ((gap > 0) - (gap < 0)));
  }
  const double mean_step =
      std::accumulate(step.begin(), step.end(), 0.0) / static_cast<double>(step.size());
  for (double& value : step) value -= mean_step;
  const Array values = Array::from_values(bias_E_.global_shape(), bias_E_.dtype(), step);
  add_(bias_E_, distribute(*runtime_, values, bias_E_.spec()));
}

}  // namespace tessera
