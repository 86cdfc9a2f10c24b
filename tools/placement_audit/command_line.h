// tools/placement_audit/command_line.h: the command line of placement-audit, read and checked; it
// opens nothing and runs nothing.
#pragma once

#include <string>

#include "placement/status.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

enum class CommandName {
  kNone,  ///< what was asked for is in `said`
  kLayout,
  kPlan,
  kPropagate,
  kShow,
  kMemory,
  kCheck,
  kExplain,
  kDiff,
  kSolve,
  kExport,
  kTrace,
  kTraceText,   ///< trace --stablehlo
  kTraceTorch,  ///< trace --torch
  kRun,
  kOps,
  kSamples,  ///< ops --samples
  kVerify,
  kMeasure,
  kRecorder,
  kCkptList,
  kCkptVerify,
  kCkptDiff,
  kCkptExport
};

struct CommandLine {
  CommandName command = CommandName::kNone;
  Request request;  ///< without the input, its name and the program's own ops
  std::string input = "-", output = "-", format = "json";
  std::string said;  ///< the help or the version
};

/// `program` is its name in the help. Errors: InvalidArgument, which is a usage error.
StatusOr<CommandLine> parse_command_line(const std::string& program, int argc,
                                         const char* const* argv);

}  // namespace tessera::audit
