#include "program/solver/memory_caps.h"

#include "program/solver/placed_program.h"

namespace tessera {

StatusOr<CappedSolution> solve_under_cap(PlacementProblem& problem, const OpTable& ops,
                                         const PropagateOptions& options) {
  (void)ops;
  CappedSolution found;
  NetworkOptions how{.time_limit_s = options.time_limit_s};
  TSR_ASSIGN_OR_RETURN(found.network, solve_network(problem.network(), how));
  found.program = placed_program(problem, solution_of(problem, found.network.states));
  return found;
}

}  // namespace tessera
