// program/solver/solve_network_reduce.h: states that no cheapest solution needs are dropped. The
// least cost stays what it is.
#pragma once

#include <vector>

#include "program/solver/solve_network_core.h"

namespace tessera::network {

/// Drops states that are forbidden, by themselves or with every state of a linked variable.
/// Returns a variable that has none left, -1 if all have.
int drop_forbidden(Core& core);

/// Of states that all links see alike, keeps the cheapest; with caps, one for each trade of cost
/// for amounts. Returns how many were dropped.
int drop_alike(Core& core);

/// Drops states that another one of their variable replaces at no more cost and no larger amounts,
/// whatever linked variables do. Returns how many were dropped. Cost: states of a variable times
/// kMaxRivals times ports.
int drop_dominated(Core& core);

/// All of the above until nothing changes, dominance where asked. Returns a variable without a
/// state, or -1.
enum class Dominance { kAlikeOnly, kFull };
int reduce(Core& core, Dominance dominance);

/// Each state's cost with the best of each link's other states.
std::vector<double> local_bounds(const Core& core, int v, const std::vector<int>& links);

/// Two states of one variable: whether `by` costs no more and has no larger amounts. `extra` is
/// what links may add for `by` beside `state`.
bool is_dominated(const Core& core, int v, int state, int by, double extra);

}  // namespace tessera::network
