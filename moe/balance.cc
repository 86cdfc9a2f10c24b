#include "moe/balance.h"

#include <numeric>

namespace tessera {

LoadBalancer::LoadBalancer(const ModelContext& context, const std::string& name)
    : runtime_(&context.runtime),
      coefficient_(context.config.bias_coeff),
      centred_(context.config.routing.bias_centred) {
  if (!coefficient_) return;
  const Placements replicated = context.views.on_dense({});
  bias_E_ = zeros(context.runtime,
                  value_or_throw(Spec::make(context.views.dense(), {context.config.num_experts},
                                            context.score_dtype(), replicated)));
  bias_E_.set_name(name + ".expert_bias_E");
}

void LoadBalancer::count(const Routing& routing) {
  if (!runtime_->grad_enabled) return;
  const NoGrad no_grad(*runtime_);
  const auto add_to = [](DTensor& sum, const DTensor& more) {
    sum = sum.defined() ? add(sum, more) : more;
  };
  add_to(counts_E_, routing.chosen_E);
  add_to(dispatched_E_, routing.counts_E);
}

void LoadBalancer::forget_counts() {
  counts_E_ = {};
  dispatched_E_ = {};
}

void LoadBalancer::update(const std::vector<std::int64_t>& counts) {
  forget_counts();
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
  if (centred_) {
    const double mean_step =
        std::accumulate(step.begin(), step.end(), 0.0) / static_cast<double>(step.size());
    for (double& value : step) value -= mean_step;
  }
  const Array values = Array::from_values(bias_E_.global_shape(), bias_E_.dtype(), step);
  add_(bias_E_, distribute(*runtime_, values, bias_E_.spec()));
}

}  // namespace tessera
