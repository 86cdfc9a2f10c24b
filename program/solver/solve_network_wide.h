// program/solver/solve_network_wide.h: cores too wide for exact elimination: states and a bound
// that come nearer to each other until they meet or the budget is over.
#pragma once

#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_search.h"

namespace tessera::network {

struct WideOptions {
  std::int64_t max_table = 0;
  double gap = 0.0;  ///< (cost - bound) / cost that suffices
};

/// Each variable in turn to its best state beside the others', until none changes.
void descend(const Core& core, std::vector<int>& states, Budget& budget);

/// Improves `best` and returns a lower bound of the core's cost. The core has no caps, or its caps
/// are left out of the bound.
double close_gap(const Core& core, const WideOptions& options, Incumbent& best, Budget& budget);

struct CutsetOptions {
  std::int64_t max_table = 0;
  int rounds = 0;
  std::uint64_t seed = 0;           ///< which variables are freed is up to it
  std::vector<double> multipliers;  ///< of caps; empty: there are none
};

/// Frees most variables and solves for them exactly, several times. Requires best states.
void improve_by_cutsets(const Core& core, const CutsetOptions& options, Incumbent& best,
                        Budget& budget);

}  // namespace tessera::network
