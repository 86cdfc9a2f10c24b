// placement/plan_step.h: single steps between two specs: along which axes bytes move, who serves
// whom, and which collective it equals. Internal to the planner.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "placement/plan.h"

namespace tessera {

std::size_t common_prefix(const Levels& a, const Levels& b);

/// True if the axis neither cuts a dim nor is Partial.
bool replicates(const Layout& layout, int axis);
/// Spec of the same tensor under another layout of `mesh`. Requires a layout that fits.
Spec with_layout(const Spec& spec, Layout layout);
/// `layout` without Partial on `axes`.
Layout without_partial(Layout layout, const std::vector<int>& axes);

/// True if every rank of `to` holds exactly the same elements under `from`, on one mesh.
bool same_elements(const Spec& from, const Spec& to);

/// The step that takes `from` to `to` at once. Requires Partial kinds to reduce that commute.
PlanStep direct_step(const Spec& from, const Spec& to);

/// Two steps by way of `part`, which cuts `to` further: reduce or move into this rank's part of the
/// final array, then gather the others' parts in place. Requires equal meshes of `part` and `to`.
std::vector<PlanStep> relay_steps(const Spec& from, const Spec& part, const Spec& to);

/// Which axes cut the part that a rank works on, beyond those that cut the target.
enum class Sharing : std::uint8_t {
  kReduced,  ///< those that are reduced or cut the source
  kAll,      ///< and those that replicate the target
  kEven      ///< all that replicate the target, as evenly as can be, wherever the source's cuts lie
};
/// `to` cut further along these axes, so that ranks share the work; an axis that cuts a dim of
/// `later` cuts it here. Partial of `to` stays.
Layout shared_part(const Spec& from, const Spec& to, Sharing sharing,
                   const Layout* later = nullptr);

}  // namespace tessera
