#include "moe/layer/balance.h"

#include "dtensor/ops.h"
#include "kernels/optimizer.h"

namespace tessera {

LoadBalancer::LoadBalancer(const LayerContext& context, const std::string& name)
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

void LoadBalancer::update_openly(const DTensor& counts_E, const DTensor& go) {
  if (!coefficient_) return;
  const DType dtype = bias_E_.dtype();
  const DTensor counts = cast(counts_E, dtype);
  DTensor step_E = sign(sub(mean(counts, {0}, KeepDim::kYes), counts));
  if (centred_) step_E = sub(step_E, mean(step_E, {0}, KeepDim::kYes));
  add_(bias_E_, mul(mul(step_E, *coefficient_), cast(go, dtype)));
}

void LoadBalancer::update(const DTensor& counts_E, const DTensor& steering) {
  if (!coefficient_ || bias_E_.local().is_null()) return;
  kernels::balance_bias(runtime_->kernels(), {.coefficient = *coefficient_, .centred = centred_},
                        counts_E.local(), steering.local(), bias_E_.local());
  bias_E_.local().storage()->bump_version();
}

}  // namespace tessera
