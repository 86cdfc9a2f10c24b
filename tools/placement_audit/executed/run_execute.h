// tools/placement_audit/executed/run_execute.h: a program that was read, executed by ranks that are
// threads: DTensors, dispatch and autograd as in any other program.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "placement/topology.h"
#include "program/program.h"
#include "runtime/call/event.h"
#include "tools/placement_audit/executed/run_program.h"

namespace tessera::audit {

/// A named result or a gradient, whole.
struct RunResult {
  std::string name;
  Spec spec;
  Array whole;  ///< contiguous
};

/// One event of a step, of all ranks that saw it.
struct RunEvent {
  int step = 0;
  Event::Kind kind = Event::Kind::kCollective;
  std::string name, tensor, axes, why;
  Origin origin = Origin::kExplicit;
  std::int64_t ranks = 0;                              ///< that saw it
  std::int64_t bytes_received = 0, most_received = 0;  ///< of all ranks; of the one with most
};

struct RunOutcome {
  std::vector<RunResult> results;  ///< in the order of Program::results, then gradients
  std::vector<RunEvent> events;
  std::string device = "cpu";  ///< as --device names it
};

struct RunSources {
  const SafetensorsFile* file = nullptr;  ///< for inputs that the document does not spell out
  std::function<Status(OpTable&)> add_ops = nullptr;
  DeviceId::Kind device = DeviceId::Kind::kCpu;     ///< whose kernels run
  std::optional<Topology> topology = std::nullopt;  ///< what moves are planned by
};

/// Errors: "source: /program/3: …" of the first step that fails on any rank, which ends all ranks;
/// io_error where the file cannot be read.
StatusOr<RunOutcome> execute(const Program& program, const RunSources& sources);

/// Whose names values have in a program: those that captures give, by op and module, or the
/// document's, its gradients' as well.
enum class ValueNames { kOfCapture, kOfDocument };
/// What rank `rank` does in it, as the program of a step, on a simulated world: no other rank is
/// there, and inputs that the document does not spell out have no values: of `sources` only ops and
/// topology count. Errors: those of execute(); InvalidArgument for a rank that the program has not.
StatusOr<tessera::Program> trace(const Program& program, std::int64_t rank,
                                 const RunSources& sources,
                                 ValueNames names = ValueNames::kOfCapture);

/// Inputs as a whole, in order; null where each rank's part is given, or nothing. Errors: io_error
/// where the file cannot be read.
StatusOr<std::vector<Array>> whole_inputs(const Program& program, const RunSources& sources);

}  // namespace tessera::audit
