// moe/layer/feed_forward.h: w2(silu(w1 x) · w3 x): the dense feed-forward and the shared experts.
#pragma once

#include <string>

#include "moe/layer/layer_context.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The hidden dim is cut over tp.
class FeedForward {
 public:
  FeedForward(const LayerContext& context, const std::string& name, std::int64_t hidden_dim,
              std::int64_t layer);
  /// Shapes: x_BLD placed whole_tokens() → (B, L, D), P(sum) on tp. No communication but FSDP's.
  DTensor operator()(const LayerContext& context, const DTensor& x_BLD) const;

 private:
  Parameter* w1_;
  Parameter* w2_;
  Parameter* w3_;
};

}  // namespace tessera
