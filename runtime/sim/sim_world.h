// runtime/sim/sim_world.h: the simulated backend: one rank of a world of any size whose other ranks
// are not there. Its collectives move no data; each is checked and logged as it would be among real
// ranks, and arrays are counted but hold no values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/memory_use.h"
#include "placement/api.h"
#include "placement/plan.h"
#include "placement/topology.h"
#include "runtime/world.h"

namespace tessera TSR_API {

struct SimOptions {
  int threads_per_rank = 1;
  /// Makes now_us() advance by what each call costs; without one all calls take no time.
  std::optional<Topology> topology = std::nullopt;
  /// Buffers of fewer bytes hold what is written into them; larger ones are addresses only.
  std::int64_t value_bytes = std::int64_t{64} << 10;
  /// Whose kernels ops and moves run, on the host's memory (shapes_device()); null: cpu_device().
  Device* device = nullptr;
  /// Called where a call ends, with its group's world ranks: may write into the call's arrays what
  /// the other ranks would have sent, where that is known. Empty: arrays keep what they held.
  std::function<void(const CollectiveCall& call, std::span<const std::int64_t> ranks)> arrive = {};
};

/// Rank `rank` of `num_ranks`, alone: calls end as soon as they are begun. Ranks cannot be
/// compared, so a call that would not match its peers' passes. Arrays from its allocator (a
/// CountingAllocator, see memory_use_of()) may have any size; what is written into them is lost.
/// The clock is simulated, so equal runs log equal events. Errors: InvalidArgument for a rank
/// outside the world or a topology that validate() refuses.
StatusOr<std::unique_ptr<World>> make_sim_world(std::int64_t rank, std::int64_t num_ranks,
                                                const SimOptions& options = {});

/// What one rank does and holds in carrying out a plan.
struct SimulatedRank {
  std::int64_t rank = 0;
  std::vector<Event> events;  ///< as the rank's World logs them, with who sends what to whom
  std::int64_t bytes_received = 0, bytes_sent = 0;
  std::int64_t messages = 0;    ///< received, one a peer and call
  std::int64_t peak_bytes = 0;  ///< of arrays, the source included; backends that pack add buffers
  double time_us = 0;           ///< by the topology; 0 without
};

/// Executes `plan` on simulated ranks, one after another: the ranks listed, or all of either mesh
/// where none is. Errors: those of make_sim_world(); what execute() throws.
/// Cost: per rank that of a PlanProgram; no more than a few megabytes, whatever the tensor's size.
StatusOr<std::vector<SimulatedRank>> simulate(const Plan& plan, const SimOptions& options = {},
                                              std::span<const std::int64_t> ranks = {});

}  // namespace tessera
