// placement/plan_chain.h: the cheapest chain of native one-axis collectives. Internal to the
// planner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/plan.h"
#include "placement/topology.h"

namespace tessera {

struct ChainLimits {
  double budget_us = 0;           ///< a chain must cost less
  std::int64_t budget_bytes = 0;  ///< and receive no more in all
};
struct Chain {
  std::vector<PlanStep> steps;
  std::vector<double> us_of_steps;
  double us = 0;                ///< their sum
  std::int64_t bytes = 0;       ///< received by all ranks in all steps
  std::int64_t messages = 0;    ///< of each step's busiest rank
  std::int64_t most_bytes = 0;  ///< likewise
};
/// Uniform-cost search over layouts, one gather, slice, all-to-all, reduce-scatter or all-reduce of
/// one axis at a time, priced in closed form: as cost_of() prices these steps. nullopt where none
/// is within the limits, where a level list has more than axes, or where Partial has to be filled.
/// Requires one mesh. Cost: that of the layouts met; of each, O(axes · dims).
std::optional<Chain> cheapest_chain(const Spec& src, const Spec& dst, const Topology& topology,
                                    const ChainLimits& limits);

}  // namespace tessera
