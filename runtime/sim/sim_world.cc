#include "runtime/sim/sim_world.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "placement/plan_cost.h"
#include "runtime/call/transport_world.h"
#include "runtime/sim/allocator.h"
#include "runtime/sim/transport.h"

namespace tessera {
namespace {

SimulatedRank summary_of(const World& world, std::vector<Event> events) {
  SimulatedRank rank{.rank = world.rank(),
                     .events = std::move(events),
                     .peak_bytes = memory_use_of(*world.allocator()).peak_bytes,
                     .time_us = world.now_us()};
  for (const Event& event : rank.events) {
    if (event.kind != Event::Kind::kCollective) continue;
    rank.bytes_received += event.bytes_received;
    rank.bytes_sent += event.bytes_sent;
    rank.messages += static_cast<std::int64_t>(event.trace.received.size());
  }
  return rank;
}

SimulatedRank simulate_rank(const Plan& plan, World& world) {
  world.events().trace(INT64_MAX, world.allocator());
  Array local;
  if (const std::optional<Coord> coord = plan.src.mesh().coord_of(world.rank())) {
    local = Array::empty(plan.src.local_shape(*coord), plan.src.dtype(), world.allocator());
  }
  const Array result = execute(world, plan, local);
  return summary_of(world, world.events().events());
}

}  // namespace

StatusOr<std::unique_ptr<World>> make_sim_world(std::int64_t rank, std::int64_t num_ranks,
                                                const SimOptions& options) {
  if (rank < 0 || rank >= num_ranks) {
    return invalid_argument(absl::StrFormat(
        "a simulated world of %d ranks has no rank %d; allowed are 0 to one below its size",
        num_ranks, rank));
  }
  if (options.topology) TSR_RETURN_IF_ERROR(validate(*options.topology));
  auto transport = std::make_unique<SimTransport>(
      SimTransport::Parts{rank, num_ranks, options.topology, options.arrive});
  return std::make_unique<TransportWorld>(
      TransportWorld::Parts{.transport = std::move(transport),
                            .threads_per_rank = options.threads_per_rank,
                            .allocator = make_sim_allocator(options.value_bytes),
                            .device = options.device});
}

StatusOr<std::vector<SimulatedRank>> simulate(const Plan& plan, const SimOptions& options,
                                              std::span<const std::int64_t> ranks) {
  const std::vector<std::int64_t> all = ranks_of(plan);
  const std::int64_t num_ranks = all.back() + 1;
  std::vector<SimulatedRank> simulated;
  for (const std::int64_t rank : ranks.empty() ? std::span<const std::int64_t>(all) : ranks) {
    TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                         make_sim_world(rank, num_ranks, options));
    try {
      simulated.push_back(simulate_rank(plan, *world));
    } catch (const Error& error) {
      return error.status();
    }
  }
  return simulated;
}

}  // namespace tessera
