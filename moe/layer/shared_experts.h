// moe/layer/shared_experts.h: the experts that every token goes through, as one feed-forward.
#pragma once

#include <string>

#include "moe/layer/feed_forward.h"
#include "moe/layer/layer_context.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// With shared_expert_gate their output is scaled by sigmoid(x · w), a number for each token.
class SharedExperts {
 public:
  SharedExperts(const LayerContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD placed whole_tokens() → (B, L, D), P(sum) on tp. No communication but FSDP's.
  DTensor operator()(const LayerContext& context, const DTensor& x_BLD) const;

 private:
  FeedForward feed_forward_;
  Parameter* gate_ = nullptr;
};

}  // namespace tessera
