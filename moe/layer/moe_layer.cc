#include "moe/layer/moe_layer.h"

#include <functional>
#include <utility>

namespace tessera {

MoeLayer::MoeLayer(const LayerContext& context, const std::string& name, std::int64_t layer)
    : router_(context, name + ".router", layer),
      experts_(context, name + ".routed_experts", layer),
      balancer_(context, name) {
  if (context.config.num_shared_experts > 0) {
    shared_.emplace(context, name + ".shared_experts", layer);
  }
}

DTensor MoeLayer::operator()(const LayerContext& context, const DTensor& x_BLD,
                             const TokenPadding& padding) {
  Runtime& runtime = context.runtime;
  const DTensor routed_x = redistribute(x_BLD, context.routed_tokens());
  Routing routing;
  {
    const ModuleScope scope(runtime, "router");
    routing = router_(context, routed_x,
                      {.expert_bias_E = balancer_.expert_bias_E(), .padding = padding});
    balancer_.count(routing);
    routing.weights_BLK = aux_losses_.attach(context, routing, balancer_);
  }
  DTensor shared;
  std::optional<ModuleScope> scope(std::in_place, runtime, "routed_experts");
  const auto run_shared = [&] {
    scope.reset();
    shared = shared_output(context, x_BLD);
    scope.emplace(runtime, "routed_experts");
  };
  const DTensor routed =
      experts_(context, routed_x, routing, shared_ ? std::function<void()>(run_shared) : nullptr);
  scope.reset();
  const DTensor out = shared_ ? add(routed, shared) : routed;
  return redistribute(out, context.tokens());
}

DTensor MoeLayer::shared_output(const LayerContext& context, const DTensor& x_BLD) const {
  const ModuleScope scope(context.runtime, "shared_experts");
  const DTensor shared = (*shared_)(context, redistribute(x_BLD, context.whole_tokens()));
  // Under expert parallelism routed tokens are shards of L: the shared summands are reduced to the
  // same shards.
  return context.views.uses_expert_parallel() ? redistribute(shared, context.routed_tokens())
                                              : shared;
}

}  // namespace tessera
