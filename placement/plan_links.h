// placement/plan_links.h: which classes of links join the ranks of a group, and what a step's
// messages take on them. Internal to the planner.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "placement/mesh.h"
#include "placement/plan.h"
#include "placement/topology.h"

namespace tessera {

/// Sums of times are rounded: by less than this share of them.
inline constexpr double kMostRounded = 1e-12;

/// Of a group's ranks other than the first one, the share that each class of links joins to it.
class LinkShares {
 public:
  /// The group along `axes` of `mesh`. Cost: O(axes · classes) where strides nest, else O(ranks).
  LinkShares(const Mesh& mesh, std::span<const int> axes, const Topology& topology);
  /// The ranks of either mesh, seen from the first one of `dst`.
  LinkShares(const Mesh& src, const Mesh& dst, const Topology& topology);

  /// Of the busiest rank, which receives so much: its messages and bytes fall on the classes as the
  /// group's ranks do. 0 for a group of one.
  double us(std::int64_t messages, std::int64_t bytes) const;
  /// Of a byte beyond the first message.
  double us_per_byte() const;

 private:
  /// From how many ranks of the group are in the first one's block of each class.
  void set(const absl::InlinedVector<std::int64_t, 4>& ranks_of_block);

  const Topology& topology_;
  absl::InlinedVector<double, 4> shares_;  ///< empty for a group of one
};

/// Of a step's group.
LinkShares links_of(const PlanStep& step, const Topology& topology);

}  // namespace tessera
