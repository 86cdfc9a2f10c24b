// program/solver/solve_network_caps.h: caps on sums, by a price for each unit of what they cap
// (Lagrangian relaxation) and a search below it.
#pragma once

#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_search.h"

namespace tessera::network {

/// What caps leave possible.
struct CappedResult {
  double bound = -kForbidden;  ///< no states that keep the caps cost less
  bool has_ended = false;     ///< nothing is cheaper than the best states; none: nothing is allowed
  bool is_forbidden = false;  ///< there are no states even without caps
  int tight_cap = -1;         ///< no states keep it, whatever they cost
  double least = 0.0;         ///< of its amounts; a lower bound where the plan is not exact
};

/// Improves `best`, whose states keep the caps, for a core with caps.
CappedResult solve_capped(const Core& core, std::int64_t max_table, double gap, Incumbent& best,
                          Budget& budget);

}  // namespace tessera::network
