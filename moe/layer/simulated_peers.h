// moe/layer/simulated_peers.h: what the ranks that share experts would send of their routing, where
// only one of them is there (runtime/sim).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "moe/layer/dispatcher.h"
#include "placement/api.h"
#include "runtime/call/communicator.h"

namespace tessera TSR_API {

/// Fills the I64 results of a dispatcher's calls: counts and ids, from the ids of every rank.
class SimulatedPeers {
 public:
  using Ranks = std::vector<std::int64_t>;
  struct Setting {
    std::int64_t top_k = 1;
    std::int64_t rank = 0;  ///< of the world, the one that is there
    /// Experts of a world rank's tokens, token by token, top_k each; all of them go somewhere.
    std::function<std::vector<std::int64_t>(std::int64_t rank)> ids_of;
  };
  /// `dispatcher` must outlive it.
  SimulatedPeers(const Dispatcher& dispatcher, Setting setting)
      : dispatcher_(dispatcher), of_(std::move(setting)) {}

  /// See SimOptions::arrive: for calls of the dispatcher alone, which says what they tell.
  void arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const;

  // For Dispatcher::arrive().

  /// Positions of ep.
  struct EpRange {
    std::int64_t first = 0, count = 1;
  };
  /// From each rank its rows for each expert of these positions, chunk by chunk. `through`: the
  /// ranks whose rows reach their experts by way of a rank; unset: itself alone.
  void fill_counts(const CollectiveCall& call, std::span<const std::int64_t> ranks,
                   EpRange positions,
                   const std::function<Ranks(std::int64_t rank)>& through = nullptr) const;
  /// From each rank the experts of its tokens.
  void fill_ids(const CollectiveCall& call, std::span<const std::int64_t> ranks) const;
  /// Of a world rank, or of the one that is there: its position along ep.
  std::int64_t ep_rank_of(std::int64_t rank) const;
  std::int64_t ep_rank() const { return ep_rank_of(of_.rank); }

 private:
  /// Rows for each expert, chunk by chunk.
  std::vector<std::int64_t> counts_of(std::int64_t rank) const;

  const Dispatcher& dispatcher_;
  Setting of_;
};

}  // namespace tessera
