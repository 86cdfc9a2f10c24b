// moe/layer/router.h: token-choice top-k routing with optional groups and a load-balancing expert
// bias. Everything stays a DTensor: the routing map and the group mask are scattered in place on
// their shards.
#pragma once

#include <string>

#include "moe/layer/layer_context.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Which tokens of a micro-batch are padding.
struct TokenPadding {
  DTensor mask_BL;  ///< BOOL, placed like the tokens: true where one is padding; undefined: none is
  /// 1 / the tokens of the whole optimizer step that are not (0 where all are): 0-d, plain.
  DTensor step_share = {};
};

/// What the router decides for tokens (B, L). An assignment that is not dispatched (of a padding
/// token, or dropped for want of room) has the id E and the weight 0.
struct Routing {
  DTensor weights_BLK;   ///< score_dtype, differentiable
  DTensor ids_BLK;       ///< I64, in [0, E]
  DTensor counts_E;      ///< I64: assignments dispatched, P(sum) on every axis that cuts tokens
  DTensor chosen_E;      ///< the same with those dropped for want of room
  DTensor map_BLE;       ///< BOOL: the assignments of chosen_E
  DTensor logits_BLE;    ///< score_dtype, differentiable
  DTensor scores_BLE;    ///< score_dtype, differentiable
  TokenPadding padding;  ///< as given to the router
};

/// What a router call reads besides the tokens.
struct RouterState {
  /// score_dtype, replicated: moves the choice, never the weights. May be undefined.
  DTensor expert_bias_E;
  TokenPadding padding;
};

class Router {
 public:
  Router(const LayerContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD placed routed_tokens(). No communication, but for a capacity. Source:
  /// DeepSeek-V3, 2024, 2.1.2.
  Routing operator()(const LayerContext& context, const DTensor& x_BLD,
                     const RouterState& state) const;

 private:
  DTensor logits(const LayerContext& context, const DTensor& x_BLD) const;

  std::string name_;
  Parameter* gate_;
};

/// Choice scores with the experts of all but the `limited` best groups (by the sum of their two
/// best) at −inf.
DTensor limit_groups(const DTensor& choice_BLE, std::int64_t groups, std::int64_t limited);
/// I64 (B, L) placed routed_tokens(): sequence · L + position, whatever order the places of L hold.
DTensor token_numbers(const LayerContext& context, std::int64_t num_sequences);
/// BOOL (B, L, E): true where a token chose an expert.
DTensor routing_map(const DTensor& scores_BLE, const DTensor& ids_BLK);

}  // namespace tessera
