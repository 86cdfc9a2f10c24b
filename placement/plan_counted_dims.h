// placement/plan_counted_dims.h: dims as they are counted: one that is cut in blocks or runs is
// seen as several that axes alone cut, where every layout allows it. Internal to the planner.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "placement/plan_tally.h"

namespace tessera {

/// An overlap's lists of one dim. `also` is null where the overlap has none.
struct DimLists {
  const Levels* a = nullptr;
  const Levels* b = nullptr;
  const Levels* also = nullptr;
};
struct CountedDim {
  std::int64_t size = 0;
  absl::InlinedVector<DimLists, 6> lists;  ///< of each overlap
};

/// Lists lead into the overlaps' layouts, and into `made`.
std::vector<CountedDim> counted_dims(const Spec& tensor, std::span<const Overlap> overlaps,
                                     std::deque<Levels>& made);

}  // namespace tessera
