// program/solver/solve_network_next.h: what each variable's second choice costs more.
#pragma once

#include <vector>

#include "program/solver/solve_network.h"
#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_search.h"

namespace tessera::network {

/// By variable and state of a core.
using Marginals = std::vector<std::vector<double>>;

/// What is known of second choices: the least cost with each state (exact), or an increase of the
/// cost that is enough (at_most). Empty: nothing.
struct KnownChoices {
  Marginals exact, at_most;
};

/// Increases of the cost by states of a core that is too wide for all marginals: a few variables
/// keep the best states, a few times others, all else is chosen anew. NaN where a variable was
/// never free. Caps are not regarded: for cores without.
Marginals increases_beside_cutsets(const Core& core, const std::vector<int>& best, Budget& budget);

/// Fills in next_…, by what is known and by changing one variable alone.
void find_second_choices(const CostNetwork& network, const Core& core, const KnownChoices& known,
                         NetworkSolution& solution);

}  // namespace tessera::network
