// moe/layer/moe_config.h: one layer of routed and shared experts, as its author says it. A whole
// model's config has it as a part (moe/train/config.h).
#pragma once

#include <cstdint>
#include <optional>

#include "moe/layer/routing_config.h"
#include "placement/api.h"

namespace tessera TSR_API {

enum class ScoreFunction : std::uint8_t { kSoftmax, kSigmoid, kSqrtSoftplus };

/// Letters as in the suffixes of tensor names.
struct MoeConfig {
  std::int64_t dim = 0;             ///< D
  std::int64_t moe_hidden_dim = 0;  ///< F
  std::int64_t num_experts = 0;     ///< E
  std::int64_t num_shared_experts = 0;
  std::int64_t router_top_k = 0;  ///< K
  ScoreFunction score_func = ScoreFunction::kSoftmax;
  std::optional<std::int64_t> groups;   ///< G: group-limited routing
  std::optional<std::int64_t> limited;  ///< groups kept
  double route_scale = 1.0;
  bool route_norm = false;
  RoutingConfig routing;
  std::optional<double> bias_coeff;  ///< absent: no expert bias
  // The tokens of a step.
  std::int64_t seq = 0;    ///< L
  std::int64_t batch = 0;  ///< B: sequences of one global micro-batch
  std::int64_t accum = 1;  ///< micro-batches of a step
};

}  // namespace tessera
