// program/solver/solve_network_dual.h: a lower bound by moving costs between links and variables
// (sequential reweighted message passing). The core stays the same problem.
#pragma once

#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_search.h"

namespace tessera::network {

/// Moves costs so that core.base, a lower bound as no cost is negative, grows; until it nearly
/// stops doing so, or reaches `goal`, or the budget is over. Source: Kolmogorov, "A new look at
/// reweighted message passing". Cost of a sweep: four additions an entry of each link.
void raise_base(Core& core, double goal, Budget& budget);

/// Drops states that alone make a solution as dear as `cost`. Returns how many.
int drop_dear(Core& core, double cost);

}  // namespace tessera::network
