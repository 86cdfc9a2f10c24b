// placement/plan_nested_lists.h: counts of lists of one dim that continue one another, as {dp} and
// {dp, tp} do: they follow from lengths of pieces, of which there are few. Internal to the planner.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/plan_counted_dims.h"
#include "placement/plan_tally.h"

namespace tessera {

/// True if the longest list of an overlap begins as its others do, and axes alone cut, none of them
/// by stated sizes.
bool are_nested(const DimLists& lists);
/// What `coord` counts of a dim of `size`. Requires lists that are nested. Cost: O(levels), times
/// two for each level by which `b` goes on.
std::int64_t count_nested(const Mesh& mesh, std::int64_t size, Overlap::Of of,
                          const DimLists& lists, const Coord& coord);

/// Coords of each axis at which what ranks count may change: between two of them all count the
/// same. 0 is always one.
class CoordBreaks {
 public:
  explicit CoordBreaks(const Mesh& mesh);
  /// Where chunks of a list become short or empty.
  void add(std::int64_t size, const Levels& levels);
  /// All coords of the list's axes.
  void add_all(const Levels& levels);
  /// Ascending.
  const std::vector<std::int64_t>& of(int axis) const {
    return of_axis_[static_cast<std::size_t>(axis)];
  }
  /// Coords from one break to the next.
  std::int64_t coords_from(int axis, std::size_t place) const;

 private:
  void add(int axis, std::int64_t coord);
  const Mesh& mesh_;
  std::vector<std::vector<std::int64_t>> of_axis_;
};

}  // namespace tessera
