// program/solver/greedy.h: a program op by op, as dispatch runs it. Internal to program/solver/.
#pragma once

#include "program/solver/propagate_program.h"
#include "program/solver/step_graph.h"

namespace tessera {

/// Each call by the row that moves least as its operands lie; each of its operands moves for
/// itself. Errors: as propagate_program().
StatusOr<Program> greedy_program(const StepGraph& graph, const PropagateOptions& options);

}  // namespace tessera
