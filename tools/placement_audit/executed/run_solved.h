// tools/placement_audit/executed/run_solved.h: run --solve: a program of ops under placements that
// the solver has found, with what it was to move beside what it moved.
#pragma once

#include "io/safetensors.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera::audit {

/// Errors: those of trace(), propagate_program() and ProgramRun; InvalidArgument for inputs that
/// have no values as a whole.
StatusOr<Answer> run_solved(const Request& request, const Program& program, const OpTable& table,
                            const SafetensorsFile* file);

}  // namespace tessera::audit
