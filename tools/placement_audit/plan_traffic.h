// tools/placement_audit/plan_traffic.h: the bytes that ranks send each other in one step of a plan.
// A cell is a block of consecutive ranks; up to so many ranks each has a cell of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/plan.h"
#include "tools/placement_audit/rank_list.h"

namespace tessera::audit {

struct Traffic {
  Ranks ranks;                      ///< of the plan, ascending
  std::size_t ranks_per_cell = 1;   ///< the last cell may hold fewer
  std::size_t cells = 0;            ///< along one side
  std::vector<std::int64_t> bytes;  ///< sender-major; what ranks copy from themselves left out
  std::vector<std::int64_t> sent;   ///< per cell: most of its ranks'
  std::vector<std::int64_t> received;

  std::int64_t between(std::size_t sender, std::size_t reader) const {
    return bytes[sender * cells + reader];
  }
  /// "rank 5", or "ranks 32-63".
  std::string cell_name(std::size_t cell) const;
};

/// Cost: O(boxes of the step).
Traffic traffic_of(const PlanStep& step, const Ranks& ranks, std::size_t max_cells);

}  // namespace tessera::audit
