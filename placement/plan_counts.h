// placement/plan_counts.h: what one coord holds of one dim under several lists of levels, counted.
// Internal to the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/layout.h"
#include "placement/plan_counted_dims.h"

namespace tessera {

/// True if `b` begins as `a` does.
bool is_prefix(const Levels& a, const Levels& b);
/// True if every coord holds one interval at most.
bool is_one_interval(const Levels& levels);

/// Elements that `coord` holds under both lists.
std::int64_t overlap_size(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b,
                          const Coord& coord);
/// Coords of the axes of `b` whose pieces hold some of what `coord` holds under `a`.
std::int64_t num_owners(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b,
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

/// What is in both; each ascends, and so does the result, whose intervals do not touch.
std::vector<Interval> in_both(const std::vector<Interval>& a, const std::vector<Interval>& b);

/// The pieces into which a list cuts a dim, one for each coord of its axes; those without elements
/// are left out.
class DimPieces {
 public:
  DimPieces(const Mesh& mesh, std::int64_t size, const Levels& levels);
  /// How many hold some of `held`, or lie in it. Requires what in_both() returns. Cost: O(intervals
  /// · log pieces) where each piece is one, else O(intervals of all pieces).
  std::int64_t num_meeting(const std::vector<Interval>& held) const;
  std::int64_t num_inside(const std::vector<Interval>& held) const;

 private:
  /// The number of the first piece that starts at `index` or later, of pieces of one interval.
  std::int64_t first_from(std::int64_t index) const;

  std::vector<std::int64_t> starts_;           ///< where each is one, and where the last one ends
  std::vector<std::vector<Interval>> pieces_;  ///< else
};

/// Counts of what a coord holds under two lists at once. Cost: as DimPieces'; O(levels) beside it
/// where each list gives a coord one interval.
class MetCounts {
 public:
  /// Lists have to stay where they are.
  MetCounts(const Mesh& mesh, std::int64_t size, Overlap::Of of, const DimLists& lists);
  std::int64_t at(const Coord& coord);

 private:
  struct Held {
    const Levels* levels;
    std::vector<Interval> of_coords;  ///< where each list gives one interval
  };
  std::vector<Interval> on(const Held& held, const Coord& coord) const;
  Interval one_on(const Held& held, const Coord& coord) const;

  const Mesh& mesh_;
  std::int64_t size_;
  Overlap::Of of_;
  bool one_interval_;
  std::vector<Held> held_;     ///< what is held under all of them counts
  DimPieces pieces_;           ///< of the other list, where owners count
  std::vector<Interval> one_;  ///< kept for its memory
};

}  // namespace tessera
