// The conformance suite on this transport.
#include "processes.h"
#include "testing/launch.h"

namespace tessera::testing {

Backend backend() noexcept { return Backend::kProcesses; }

bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  ProcessRun run = run_processes(num_ranks, options, body);
  return {run.first, std::move(run.reports), run.seconds};
}

}  // namespace tessera::testing
