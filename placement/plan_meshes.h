// placement/plan_meshes.h: what ranks of one mesh receive of what ranks of another hold, rank by
// rank, where each holds one interval of a dim. Internal to the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/plan_cost.h"
#include "placement/spec.h"

namespace tessera {

/// Units: elements, messages.
struct ReceivedBetween {
  Volume elements, messages;
};

/// An exchange from `src` to `dst` over the ranks of both meshes. nullopt with Partial, or where
/// levels are more than axes. Cost: O(ranks · cut dims).
std::optional<ReceivedBetween> exchanged(const Spec& src, const Spec& dst);

/// The ranks of either mesh, ascending.
std::vector<std::int64_t> ranks_of_both(const Mesh& a, const Mesh& b);

/// Elements that the rank with most of them lacks of `dst`, where it holds `part` of it, and `kept`
/// on a mesh of its own. nullopt as above.
std::optional<std::int64_t> most_lacking(const Spec& kept, const Spec& part, const Spec& dst);

}  // namespace tessera
