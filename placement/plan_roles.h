// placement/plan_roles.h: what each mesh axis does in one step, as the sources of plan.h share it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "placement/plan.h"
#include "placement/reduce_op.h"

namespace tessera {

/// How the coord of a rank that is read from follows from the reader's, for one axis of the source.
enum class AxisRole : std::uint8_t {
  kSame,     ///< equal: it stays Partial, or its shards stay where they are in a Partial target
  kOwner,    ///< that of the piece: the axis cuts the source
  kFold,     ///< every one: the axis is reduced
  kReplica,  ///< one of several that hold the same, see ReplicaChoice
};

struct Roles {
  std::vector<AxisRole> of_axis;  ///< of the source's mesh
  std::vector<bool> fills;        ///< of the target's mesh: coords other than 0 read nothing
};

/// True if all Partial kinds of a layout have one identity, so that shards can stay in place beside
/// it.
inline bool has_one_identity(const Layout& layout) {
  const ReduceOp* first = nullptr;
  return std::all_of(layout.partial.begin(), layout.partial.end(), [&](const auto& op) {
    if (!op) return true;
    if (first == nullptr) first = &*op;
    return commute(*first, *op);
  });
}

/// True if axis `a` turns from cutting `src` into Partial in `dst`, its shards staying where they
/// are. An average needs the value on every coord.
inline bool keeps_shards(const Layout& src, const Layout& dst, int axis) {
  const auto& to = dst.partial[static_cast<std::size_t>(axis)];
  return to && !divides(*to) && src.dim_of_axis(axis) >= 0 && has_one_identity(dst);
}

/// The axes of one step.
inline Roles roles_of(const PlanStep& step) {
  const Layout& src = step.src.layout();
  const Layout& dst = step.dst.layout();
  const bool one_mesh = step.src.mesh() == step.dst.mesh();
  Roles roles;
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const bool stays =
        one_mesh && (src.partial[a] ? dst.partial[a].has_value() : keeps_shards(src, dst, axis));
    roles.of_axis.push_back(stays                        ? AxisRole::kSame
                            : src.partial[a]             ? AxisRole::kFold
                            : src.dim_of_axis(axis) >= 0 ? AxisRole::kOwner
                                                         : AxisRole::kReplica);
  }
  for (int axis = 0; axis < step.dst.mesh().ndim(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const auto& to = dst.partial[a];
    const bool stays = one_mesh && (src.partial[a] || keeps_shards(src, dst, axis));
    roles.fills.push_back(to && !divides(*to) && !stays);
  }
  return roles;
}

}  // namespace tessera
