// moe/layer/forced_routing.h: routing that follows from the numbers of tokens alone, so that any
// rank can tell what the tokens of all others choose: balanced, or by a load for each expert.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "moe/layer/moe_config.h"
#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Loads are numbers in any unit, such as counts of tokens: only their shares of the sum count.
/// Errors: InvalidArgument naming the expert, for other than `num_experts` numbers, a negative one,
/// zeros alone, and a share above 1 / top_k, for a token takes an expert once.
Status check_loads(std::span<const double> loads, std::int64_t num_experts, std::int64_t top_k);

/// Experts by number of the token, where config.routing.is_forced(). By loads it is systematic
/// sampling: experts lie on a line, each as long as its share of K, and slot k of a token takes the
/// one at k + u, where u in [0, 1) is another for each token and even over many. Loads that are all
/// equal are force_balance.
class ForcedRouting {
 public:
  /// Requires loads that check_loads() accepts, or force_balance.
  explicit ForcedRouting(const MoeConfig& config);

  /// Appends the token's K experts, all different. Cost: K log(E).
  void append_experts(std::int64_t token, std::vector<std::int64_t>& ids) const;

 private:
  std::int64_t num_experts_, top_k_;
  std::vector<std::int64_t>
      ends_;  ///< of experts on the line, in 1 / kForcedParts; empty: balanced
};

/// Parts of a slot: an expert's share of tokens is a multiple of one in so many.
inline constexpr std::int64_t kForcedParts = std::int64_t{1} << 16;

}  // namespace tessera
