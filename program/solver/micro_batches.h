// program/solver/micro_batches.h: micro-batches are placed alike. Their steps stand apart in a
// schedule, often between one another's, so that no repeat folds them. Internal to program/solver/.
#pragma once

#include <vector>

#include "program/program.h"

namespace tessera {

/// Per step, a number that is equal for the same step of several micro-batches, by what it
/// computes, in which module, and from values of its own micro-batch or not; of a step of none, and
/// of frees, a number of its own. `flat` has no repeats and no moves that nobody wrote.
/// Cost: O(steps).
std::vector<int> alike_in_micro_batches(const Program& flat);

/// Numbers which are equal where either says so, in order of first appearance.
std::vector<int> joined(const std::vector<int>& a, const std::vector<int>& b);

}  // namespace tessera
