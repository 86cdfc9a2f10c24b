// Ranks as threads over NCCL, each on a card of its own: emulated ones over NCCL emulated.
#include "devices/nccl/ranks.h"
#include "testing/launch_threads.h"
#include "testing/program.h"
#include "tests/support/test_device.h"

namespace tessera::testing {
namespace {

Status run_on_cards(int num_ranks, const WorldOptions& options,
                    const std::function<void(World&)>& body) {
  return run_nccl_ranks_on(device_kind(), num_ranks, {.world = options}, body);
}

}  // namespace

Backend backend() noexcept { return Backend::kProcesses; }
bool runs_here(std::int64_t num_ranks) {
  return device_kind() != DeviceId::Kind::kCuda || num_ranks <= num_devices(DeviceId::Kind::kCuda);
}

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  if (!runs_here(num_ranks)) end_case();
  WorldOptions on_cards = options;
  on_cards.checks = CallChecks::kOn;
  return launch_threads(num_ranks, on_cards, body, run_on_cards);
}

}  // namespace tessera::testing
