// tools/placement_audit/plan_blocks.h: a tensor of up to two dims as rectangles: which ranks hold
// one before a step, and from whom a rank reads one in it.
#pragma once

#include <optional>
#include <vector>

#include "placement/plan.h"
#include "tools/placement_audit/rank_list.h"

namespace tessera::audit {

/// A rectangle of a tensor; a tensor of one dim is one row, one of none is one cell.
struct Block {
  Interval rows;
  Interval columns;
  Ranks ranks;  ///< that hold it, ascending; or whose boxes are folded into it, in that order
};

/// Rows and columns as drawn.
struct Extents {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};
/// nullopt for a tensor of three dims or more, or one without elements.
std::optional<Extents> extents_of(const Spec& spec);

/// What ranks hold, a block for each rectangle and set of holders. Empty where that takes more than
/// `max_blocks`. Requires extents_of().
std::vector<Block> blocks_held(const Spec& spec, std::size_t max_blocks);
/// What `rank` holds.
std::vector<Block> blocks_of(const Spec& spec, std::int64_t rank);
/// What `rank` reads in the step, by the ranks that it reads it from.
std::vector<Block> blocks_read(const PlanStep& step, std::int64_t rank);

}  // namespace tessera::audit
