// Ranks of the simulated backend, a thread each. What the others would have sent, a rank of the
// threads backend brings: each call is given to it once more.
#include "runtime/sim/sim_world.h"
#include "testing/launch_threads.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kAnyBytes = std::int64_t{1} << 40;

Status run_simulated(int num_ranks, const WorldOptions& options,
                     const std::function<void(World&)>& body) {
  return run_ranks(num_ranks, options, [&](World& carrier) {
    const auto bring = [&](const CollectiveCall& call, std::span<const std::int64_t> ranks) {
      value_or_throw(carrier.group(ranks))->start(call, {.log = CallLog::kNo})->wait();
    };
    body(*value_or_throw(make_sim_world(carrier.rank(), num_ranks,
                                        {.threads_per_rank = carrier.threads_per_rank(),
                                         .value_bytes = kAnyBytes,
                                         .arrive = bring})));
  });
}

}  // namespace

Backend backend() noexcept { return Backend::kThreads; }
bool runs_here(std::int64_t) { return true; }

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  return launch_threads(num_ranks, options, body, run_simulated);
}

}  // namespace tessera::testing
