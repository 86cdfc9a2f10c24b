// placement/plan_chain.h: the cheapest chain of native one-axis collectives. Internal to the
// planner.
#pragma once

#include <optional>
#include <vector>

#include "placement/plan.h"
#include "placement/topology.h"

namespace tessera {

struct ChainLimits {
  double budget_us = 0;           ///< a chain must cost less
  std::int64_t budget_bytes = 0;  ///< and receive no more in all
};
/// Uniform-cost search over layouts, one gather, slice, all-to-all, reduce-scatter or all-reduce of
/// one axis at a time. nullopt where none is within the limits, where a level list has more than
/// axes, or where Partial has to be filled. Requires one mesh.
std::optional<std::vector<PlanStep>> cheapest_chain(const Spec& src, const Spec& dst,
                                                    const Topology& topology,
                                                    const ChainLimits& limits);

}  // namespace tessera
