// moe/layer/moe_layer.h: a mixture of experts as one layer of any model: router, experts and what
// balances them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "moe/layer/aux_loss.h"
#include "moe/layer/balance.h"
#include "moe/layer/experts.h"
#include "moe/layer/router.h"
#include "moe/layer/shared_experts.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Routed experts, shared experts and what balances them.
class MoeLayer {
 public:
  MoeLayer(const LayerContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD placed tokens() → the same. The padding's mask is placed routed_tokens().
  DTensor operator()(const LayerContext& context, const DTensor& x_BLD,
                     const TokenPadding& padding = {});
  LoadBalancer& balancer() noexcept { return balancer_; }
  AuxLosses& aux_losses() noexcept { return aux_losses_; }
  RoutedExperts& experts() noexcept { return experts_; }

 private:
  /// Of the shared experts, placed as the routed ones' result.
  DTensor shared_output(const LayerContext& context, const DTensor& x_BLD) const;

  Router router_;
  RoutedExperts experts_;
  std::optional<SharedExperts> shared_;
  LoadBalancer balancer_;
  AuxLosses aux_losses_;
};

}  // namespace tessera
