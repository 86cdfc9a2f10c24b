// program/solver/memory_caps.h: the cheapest placements under a cap of a rank's memory. Internal to
// program/solver/.
#pragma once

#include "program/memory.h"
#include "program/solver/placement_problem.h"
#include "program/solver/solve_network.h"

namespace tessera {

/// That of the stage whose ranks hold most. Errors: those of memory_of().
StatusOr<StageMemory> fullest_stage(const Program& program, const OpTable& ops);

struct CappedSolution {
  NetworkSolution network;
  Program program;  ///< placed
};

/// Without a cap, the cheapest. With one: points of the step at which more is held than the cap
/// become caps of the network, one after another, until memory_of() finds none. Errors: those of
/// solve_network(); ResourceExhausted naming the least peak that was found.
StatusOr<CappedSolution> solve_under_cap(PlacementProblem& problem, const OpTable& ops,
                                         const PropagateOptions& options);

}  // namespace tessera
