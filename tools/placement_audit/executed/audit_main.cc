#include "tools/placement_audit/audit_main.h"

#include "tools/placement_audit/audit_program.h"

namespace tessera {
namespace {

/// The commands that run ops on ranks of this process, or read what ranks wrote.
std::optional<audit::Command> executing_command(audit::CommandName name) {
  using audit::Command;
  switch (name) {
    case audit::CommandName::kRun:
      return Command{.run = audit::run_program, .reads_input = true};
    case audit::CommandName::kTrace:
      return Command{.run = audit::trace_program};
    case audit::CommandName::kSamples:
      return Command{.run = audit::samples, .writes = true};
    case audit::CommandName::kVerify:
      return Command{.run = audit::verify_ops, .writes = true};
    case audit::CommandName::kMeasure:
      return Command{.run = audit::measure};
    case audit::CommandName::kRecorder:
      return Command{.run = audit::judge_records};
    case audit::CommandName::kCkptList:
      return Command{.run = audit::list_checkpoint};
    case audit::CommandName::kCkptVerify:
      return Command{.run = audit::verify_checkpoint_folder};
    case audit::CommandName::kCkptDiff:
      return Command{.run = audit::diff_checkpoint_folders};
    case audit::CommandName::kCkptExport:
      return Command{.run = audit::export_checkpoint};
    default:
      return std::nullopt;
  }
}

}  // namespace

int audit_main(int argc, char** argv, const AuditProgram& program) {
  return audit::run_audit(argc, argv, program, executing_command);
}

}  // namespace tessera
