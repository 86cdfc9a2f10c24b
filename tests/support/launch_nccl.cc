// Ranks as threads over NCCL, each on a card of its own: emulated ones over NCCL emulated.
#include "runtime/nccl_world.h"
#include "tests/support/launch_threads.h"
#include "tests/support/test_device.h"

namespace tessera::testing {

Backend backend() noexcept { return Backend::kProcesses; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  WorldOptions on_cards = options;
  on_cards.allocator = [](std::int64_t rank) { return device_of_card(rank)->make_allocator(); };
  on_cards.checks = CallChecks::kOn;
  return launch_threads(num_ranks, on_cards, body, run_emulated_nccl_ranks);
}

}  // namespace tessera::testing
