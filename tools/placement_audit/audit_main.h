// tools/placement_audit/audit_main.h: placement-audit as a function, for a program with ops of its
// own: its commands then know those ops beside the built-in ones.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "placement/api.h"
#include "placement/status.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

class World;

/// Ranks that a command asks for.
struct AuditRanks {
  /// "threads": of this process; "mpi": processes of mpirun; "nccl": ranks with cards. Empty: the
  /// processes that mpirun has started, else threads.
  std::string backend;
  std::string device = "cpu";
  std::int64_t num_ranks = 2;  ///< of threads; processes are as many as were started
};

struct AuditProgram {
  std::string name;  ///< in the help and before each error
  /// Adds the program's own ops to a table that holds the built-in ones; null where it has none. An
  /// error that it returns is the program's (exit code 3).
  std::function<Status(OpTable&)> add_ops = nullptr;
  /// Runs `body` on all of these ranks that are of this process, as run_ranks() does; null: the
  /// program knows ranks that are threads, and no others.
  std::function<Status(const AuditRanks& ranks, const std::function<void(World&)>& body)>
      run_ranks = nullptr;
};

/// The whole of a main(): runs the command line of placement-audit (docs/placement-audit.md) over
/// the built-in ops and the program's own, `my-ops verify my_op` for one. Returns the exit code of
/// io/exit_code.h. Ignores SIGPIPE from then on.
int audit_main(int argc, char** argv, const AuditProgram& program);

}  // namespace tessera
