// program/solver/placed_program.h: a program under a choice of placements: every value placed,
// every move a step. Internal to program/solver/.
#pragma once

#include <vector>

#include "program/solver/placement_problem.h"

namespace tessera {

/// One choice for a whole problem.
struct PlacementSolution {
  std::vector<int> candidates;  ///< per twin; -1 where it has none
  std::vector<int> made;        ///< per class: number of the spec
  std::vector<bool> again;      ///< per class: each phase moves it for itself
};
/// `states` of the problem's variables.
PlacementSolution solution_of(const PlacementProblem& problem, const std::vector<int>& states);

struct PlacedProgram {
  Program program;           ///< no round folded
  std::vector<int> step_of;  ///< per step: the problem's for which it is there
};
PlacedProgram placed_program(PlacementProblem& problem, const PlacementSolution& solution);

}  // namespace tessera
