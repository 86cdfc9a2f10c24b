// runtime/call/rank_calls.h: the calls of one rank in flight, over all its groups, and a group's
// communicator over any transport. Progress happens in a rank's waits: whichever call it waits for,
// it drives all that can go on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "placement/api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/event.h"
#include "runtime/call/pending_call.h"
#include "runtime/call/transport.h"
#include "runtime/recorder/recorder.h"

namespace tessera TSR_API {

/// Thread-safety: its own rank's thread only.
class RankCalls {
 public:
  /// All outlive it.
  struct Parts {
    Transport& transport;
    EventLog& log;
    FlightRecorder* recorder = nullptr;    ///< null: calls leave no record
    std::chrono::milliseconds timeout{0};  ///< of calls that state none
  };
  explicit RankCalls(const Parts& parts) : parts_(parts) {}
  ~RankCalls();
  RankCalls(const RankCalls&) = delete;
  RankCalls& operator=(const RankCalls&) = delete;

  Transport& transport() noexcept { return parts_.transport; }
  EventLog& log() noexcept { return parts_.log; }
  FlightRecorder* recorder() noexcept { return parts_.recorder; }
  std::chrono::milliseconds timeout() const noexcept { return parts_.timeout; }
  /// Some call was begun: there is something on record.
  bool has_begun() const noexcept { return has_begun_; }

  /// Begins the call.
  void add(const std::shared_ptr<PendingCall>& call, std::uint32_t recorded_group);
  /// Until the call is over; it may have failed then.
  void wait(PendingCall& call);
  /// Waits for all calls still pending, in order. Throws what the first that fails has failed with.
  void finish_all();

 private:
  void advance_all();
  void wait_until_over(PendingCall& call);

  Parts parts_;
  std::vector<std::shared_ptr<PendingCall>> pending_;
  bool has_begun_ = false;
};

class GroupCommunicator final : public Communicator {
 public:
  /// `calls` outlives it. Errors: the transport's.
  static StatusOr<std::unique_ptr<GroupCommunicator>> make(RankCalls& calls, CallGroup group);

  int rank() const noexcept override { return group_.rank; }
  int size() const noexcept override { return group_.size(); }
  std::int64_t world_rank(int group_rank) const override { return group_.world_rank(group_rank); }
  bool reaches_peers() const noexcept override { return on_transport_->reaches_peers(); }
  std::string why_unreached() const override { return on_transport_->why_unreached(); }
  std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) override;

 private:
  GroupCommunicator(RankCalls& calls, CallGroup group) : calls_(calls), group_(std::move(group)) {}
  std::uint64_t& next_in_lane(const CollectiveCall& call);

  RankCalls& calls_;
  CallGroup group_;
  std::uint32_t recorded_group_ = 0;
  std::unique_ptr<TransportGroup> on_transport_;
  std::uint64_t next_collective_ = 0;
  std::map<int, std::uint64_t> next_to_, next_from_;  ///< messages, by peer
};

}  // namespace tessera
