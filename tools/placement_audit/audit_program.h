// tools/placement_audit/audit_program.h: the program around the commands: its command line, files,
// answers and exit codes. What commands there are beside those that plan is told by its caller.
#pragma once

#include <optional>

#include "tools/placement_audit/audit_main.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/command_line.h"

namespace tessera::audit {

/// A subcommand, and what it needs of the command line.
struct Command {
  StatusOr<Answer> (*run)(const Request&) = nullptr;
  bool reads_input = false;
  bool draws = false;     ///< has the formats html and svg, too
  bool pages = false;     ///< has the format html, too
  bool writes = false;    ///< has the format md, too
  bool reports = false;   ///< has the formats sarif and junit, too
  bool declares = false;  ///< has the format cpp, too
  bool leaves = false;    ///< has the formats torch and shardy, too
  bool colours = false;   ///< its text may be coloured; names of a file in it are printable

  bool has(Format format) const noexcept {
    if (format == Format::kMarkdown) return writes;
    if (format == Format::kCpp) return declares;
    if (format == Format::kTorch || format == Format::kShardy) return leaves;
    if (format == Format::kSarif || format == Format::kJunit) return reports;
    if (format == Format::kHtml) return draws || pages;
    return draws || format != Format::kSvg;
  }
};

/// None for a command that this build lacks.
using OtherCommands = std::optional<Command> (*)(CommandName);

/// audit_main() with the commands that plan and the others given.
int run_audit(int argc, char** argv, const AuditProgram& program, OtherCommands others);

}  // namespace tessera::audit
