// placement/plan_tally.h: how many elements ranks of one mesh hold, and hold of two layouts at
// once, counted by classes of coords instead of rank by rank. Internal to the planner.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "placement/spec.h"

namespace tessera {

/// What is counted on a rank, of layouts of one mesh and shape.
struct Overlap {
  enum class Of : std::uint8_t {
    kElements,  ///< elements held under both layouts
    kOwners,    ///< coords whose pieces under `b` hold some of what the rank holds under `a`
    kInside     ///< coords whose pieces under `b` lie in that
  };
  const Layout* a = nullptr;
  const Layout* b = nullptr;  ///< null: only `a` counts
  Of of = Of::kElements;
  const Layout* also = nullptr;  ///< not null: of what is held under `a`, what it holds, too
};

inline constexpr std::size_t kMaxOverlaps = 12;
/// Ranks for which every overlap counts the same.
struct RankClass {
  std::array<std::int64_t, kMaxOverlaps> counts{};
  std::int64_t num_ranks = 0;
};

/// Classes over all ranks of the mesh of `tensor`, whose mesh and shape the layouts share.
/// Requires at most kMaxOverlaps overlaps. Cost: coords of the axes that dims share, not ranks.
std::vector<RankClass> tally(const Spec& tensor, std::span<const Overlap> overlaps);

}  // namespace tessera
