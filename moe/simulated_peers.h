// moe/simulated_peers.h: what the ranks that share experts would send of their routing, where only
// one of them is there (runtime/sim).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "moe/dispatcher.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Fills the I64 results of a dispatcher's calls: counts and ids, from the ids of every rank.
class SimulatedPeers {
 public:
  struct Setting {
    ExpertGroup group;
    DispatchConfig dispatch;
    std::int64_t num_experts = 1;
    std::int64_t top_k = 1;
    std::int64_t rank = 0;  ///< of the world, the one that is there
    /// Experts of a world rank's tokens, token by token, top_k each; all of them go somewhere.
    std::function<std::vector<std::int64_t>(std::int64_t rank)> ids_of;
  };
  explicit SimulatedPeers(Setting setting) : of_(std::move(setting)) {}

  /// See SimOptions::arrive: for calls of the dispatcher alone.
  void arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const;

 private:
  using Numbers = std::vector<std::int64_t>;
  /// Positions of ep.
  struct EpRange {
    std::int64_t first = 0, count = 1;
  };
  Numbers counts_of(std::int64_t rank) const;
  std::int64_t ep_rank_of(std::int64_t rank) const;
  std::int64_t ep_per_node() const;
  Numbers sent_through(std::int64_t rank) const;
  void fill_counts(const CollectiveCall& call, std::span<const std::int64_t> ranks,
                   EpRange positions) const;
  void fill_gathered(const CollectiveCall& call, std::span<const std::int64_t> ranks) const;

  Setting of_;
};

}  // namespace tessera
