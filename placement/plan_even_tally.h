// placement/plan_even_tally.h: the counts of plan_tally.h where every cut is even, in closed form:
// no coord is looked at. Internal to the planner.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "placement/plan_tally.h"

namespace tessera {

/// As tally(), though several classes may count alike. nullopt where a piece is cut unevenly or by
/// stated sizes, where the cuts of two layouts do not fall on each other's borders, or where more
/// than a few axes meet in one place. Cost: O(overlaps · axes that cut), whatever the mesh's size.
std::optional<std::vector<RankClass>> even_tally(const Spec& tensor,
                                                 std::span<const Overlap> overlaps);

}  // namespace tessera
