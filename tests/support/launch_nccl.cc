// Ranks as threads over NCCL, each on a card of its own: emulated ones over NCCL emulated.
#include <chrono>

#include "runtime/nccl_world.h"
#include "tests/support/launch.h"
#include "tests/support/test_device.h"

namespace tessera::testing {

Backend backend() noexcept { return Backend::kProcesses; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  WorldOptions on_cards = options;
  on_cards.allocator = [](std::int64_t rank) { return device_of_card(rank)->make_allocator(); };
  on_cards.checks = CallChecks::kOn;
  Launched launched;
  launched.reports.resize(static_cast<std::size_t>(num_ranks));
  const auto start = std::chrono::steady_clock::now();
  launched.first = run_emulated_nccl_ranks(num_ranks, on_cards, [&](World& world) {
    body(world, launched.reports[static_cast<std::size_t>(world.rank())]);
  });
  launched.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return launched;
}

}  // namespace tessera::testing
