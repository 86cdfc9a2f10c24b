// placement/plan_refine.h: two meshes of the same ranks seen as one, whose axes both are made of.
// Internal to the planner.
#pragma once

#include <optional>
#include <utility>

#include "placement/spec.h"

namespace tessera {

/// Both specs on one mesh: axes of size 1 dropped, axes split where the other mesh has a border
/// ({8} and {2, 4} are both made of {2, 4}). nullopt where the ranks or their order differ, or
/// where a cut along a split axis gives other index sets than cuts along its parts (uneven sizes).
std::optional<std::pair<Spec, Spec>> on_common_mesh(const Spec& a, const Spec& b);

}  // namespace tessera
