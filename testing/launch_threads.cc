#include "testing/launch_threads.h"

namespace tessera::testing {

Backend backend() noexcept { return Backend::kThreads; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  return launch_threads(num_ranks, options, body);
}

}  // namespace tessera::testing
