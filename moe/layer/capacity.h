// moe/layer/capacity.h: bounded room for tokens in each expert: assignments beyond it are dropped.
#pragma once

#include <cstdint>

#include "moe/layer/dispatcher.h"
#include "moe/layer/layer_context.h"
#include "moe/layer/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Assignments that one expert takes of `num_tokens` tokens: ceil(num_tokens · K / E · factor).
/// Requires a capacity factor. Source: Megatron-LM get_capacity.
std::int64_t expert_capacity(const MoeConfig& config, std::int64_t num_tokens);

/// The rows that capacity leaves each expert at most of tokens placed like x_BLD, of one rank of
/// the expert group and of all. Requires a capacity factor.
ExpertRoom expert_room(const MoeConfig& config, const DTensor& x_BLD, const ExpertGroup& group);
/// Errors: InvalidArgument naming both keys where pad_to_capacity meets a rows_bound.
Status check_padding_to_capacity(const RoutingConfig& routing, const DispatchConfig& dispatch);

/// routing.map_BLE without what the experts have no room for: BOOL (B, L, E), placed like it.
/// Reads map (without padding), ids (with what padding chose) and weights. Collective: the
/// `capacity` best of each expert are compared over the axes that cut L and, in a micro-batch's
/// scope, B.
DTensor map_within_capacity(const LayerContext& context, const Routing& routing);

}  // namespace tessera
