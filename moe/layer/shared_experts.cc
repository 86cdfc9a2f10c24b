#include "moe/layer/shared_experts.h"

namespace tessera {

SharedExperts::SharedExperts(const LayerContext& context, const std::string& name,
                             std::int64_t layer)
    : feed_forward_(context, name,
                    context.config.moe_hidden_dim * context.config.num_shared_experts, layer) {
  if (context.config.routing.shared_expert_gate) {
    gate_ = &context.declare(name + ".gate.weight", {1, context.config.dim}, Replicate{},
                             truncated_init(kLinearStd));
  }
}

DTensor SharedExperts::operator()(const LayerContext& context, const DTensor& x_BLD) const {
  const DTensor out = feed_forward_(context, x_BLD);
  return gate_ == nullptr ? out : mul(out, sigmoid(project(context, x_BLD, *gate_)));
}

}  // namespace tessera
