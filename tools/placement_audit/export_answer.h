// tools/placement_audit/export_answer.h: a placed program in a format that solve and export have.
#pragma once

#include "program/program.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// JSON is the program's own; text and Markdown are one. What Shardy has no words for is a warning.
/// Errors: those of program/export/.
StatusOr<Answer> export_answer(const Program& program, Format format);

}  // namespace tessera::audit
