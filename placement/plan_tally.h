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
    kOwners     ///< coords whose pieces under `b` hold some of what the rank holds under `a`
  };
  const Layout* a = nullptr;
  const Layout* b = nullptr;  ///< null: only `a` counts
  Of of = Of::kElements;
};

inline constexpr std::size_t kMaxOverlaps = 8;
/// Ranks for which every overlap counts the same.
struct RankClass {
  std::array<std::int64_t, kMaxOverlaps> counts{};
  std::int64_t num_ranks = 0;
};

/// Classes over all ranks of the mesh of `tensor`, whose mesh and shape the layouts share.
/// Requires at most kMaxOverlaps overlaps. Cost: coords of the axes that dims share, not ranks.
std::vector<RankClass> tally(const Spec& tensor, std::span<const Overlap> overlaps);

/// Elements of one dim that `coord` holds under both level lists of `mesh`.
std::int64_t overlap_size(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b,
                          const Coord& coord);

/// What each coord of the axes of `levels` holds, the last one fastest. Requires that `levels` are
/// axes alone: each coord then holds one interval.
std::vector<Interval> intervals_of(const Mesh& mesh, std::int64_t size, const Levels& levels);
/// Whether the first of two lists is known to cut the pieces of the second one further.
enum class Refines : std::uint8_t { kUnknown, kYes };
/// For each entry of `a`: how many entries of `b`, both as intervals_of() gives them, hold some of
/// it.
std::vector<std::int64_t> owners_of(const std::vector<Interval>& a, const std::vector<Interval>& b,
                                    Refines refines);

}  // namespace tessera
