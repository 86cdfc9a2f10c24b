// runtime/sim/communicator.h: one simulated rank's end of a group, and what its groups share.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "placement/topology.h"
#include "runtime/communicator.h"
#include "runtime/event.h"

namespace tessera {

/// What all groups of one rank share.
struct SimRank {
  std::int64_t rank = 0;
  EventLog* log = nullptr;
  std::optional<Topology> topology;
  double now_us = 0;
  Status failure;  ///< what poisoned the rank's groups
  /// See SimOptions.
  std::function<void(const CollectiveCall& call, std::span<const std::int64_t> ranks)> arrive;
};

class SimCommunicator final : public Communicator {
 public:
  /// `state` outlives it.
  SimCommunicator(SimRank& state, std::vector<std::int64_t> ranks);

  int rank() const noexcept override { return group_rank_; }
  int size() const noexcept override { return static_cast<int>(ranks_.size()); }
  std::int64_t world_rank(int group_rank) const override {
    return ranks_[static_cast<std::size_t>(group_rank)];
  }
  /// The call is over when this returns.
  std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) override;

 private:
  std::uint64_t next_sequence(const CollectiveCall& call);
  /// Of the direction that takes longer.
  double time_us(const CollectiveCall& call) const;

  SimRank& state_;
  std::vector<std::int64_t> ranks_;
  int group_rank_ = 0;
  std::uint64_t next_ = 0;  ///< of the group's collectives
  std::map<std::pair<CollectiveCall::Kind, int>, std::uint64_t> next_message_;  ///< by peer
};

}  // namespace tessera
