// program/solver/solve_network_next.h: what each variable's second choice costs more.
#pragma once

#include <vector>

#include "program/solver/solve_network.h"
#include "program/solver/solve_network_core.h"

namespace tessera::network {

/// Fills in next_…; `marginals`: the least cost with each of the core's states; empty: unknown.
void find_second_choices(const CostNetwork& network, const Core& core,
                         const std::vector<std::vector<double>>& marginals,
                         NetworkSolution& solution);

}  // namespace tessera::network
