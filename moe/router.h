// moe/router.h: token-choice top-k routing with optional groups and a load-balancing expert bias.
// Everything stays a DTensor: the routing map and the group mask are scattered in place on their
// shards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "moe/model_context.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// What the router decides for tokens (B, L).
struct Routing {
  DTensor weights_BLK;  ///< score_dtype, differentiable
  DTensor ids_BLK;      ///< I64
  DTensor counts_E;     ///< I64: tokens per expert, P(sum) on every axis that cuts tokens
};

class Router {
 public:
  Router(const ModelContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD placed routed_tokens(); `expert_bias_E` (score_dtype, replicated) may be
  /// undefined: it moves the choice, never the weights. No communication. Source: DeepSeek-V3,
  /// 2024, 2.1.2.
  Routing operator()(const ModelContext& context, const DTensor& x_BLD,
                     const DTensor& expert_bias_E) const;

 private:
  Parameter* gate_;
};

/// Choice scores with the experts of all but the `limited` best groups (by the sum of their two
/// best) at −inf.
DTensor limit_groups(const DTensor& choice_BLE, std::int64_t groups, std::int64_t limited);
/// BOOL (B, L, E): true where a token chose an expert.
DTensor routing_map(const DTensor& scores_BLE, const DTensor& ids_BLK);

/// Tokens per expert since the last update, and the bias that evens them out.
class LoadBalancer {
 public:
  /// No bias where `coefficient` is absent; counts are kept all the same.
  LoadBalancer(const ModelContext& context, const std::string& name);
  const DTensor& expert_bias_E() const noexcept { return bias_E_; }
  const DTensor& counts_E() const noexcept { return counts_E_; }
  void count(const DTensor& counts_E);
  /// Drops what evaluation passes counted.
  void forget_counts() { counts_E_ = {}; }
  /// bias += coeff·(sign(mean(C) − C) − its mean), in place; counts start again. `counts` are
  /// global.
  void update(const std::vector<std::int64_t>& counts);

 private:
  Runtime* runtime_;
  std::optional<double> coefficient_;
  DTensor bias_E_;
  DTensor counts_E_;
};

}  // namespace tessera
