// Ranks as threads, each on an emulated device of its own; two of them share a card.
#include "testing/launch_threads.h"
#include "tests/support/test_device.h"

namespace tessera::testing {

Backend backend() noexcept { return Backend::kThreads; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  WorldOptions on_devices = options;
  on_devices.allocator = memory_of_rank;
  return launch_threads(num_ranks, on_devices, body);
}

}  // namespace tessera::testing
