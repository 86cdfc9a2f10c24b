// runtime/control/process_transport.h: what transports between processes have alike: the control
// channel tells who failed, who left and who waits for what, so that no rank waits in vain.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "placement/api.h"
#include "runtime/call/transport.h"
#include "runtime/control/channel.h"
#include "runtime/shared_core.h"

namespace tessera TSR_API {

/// An ordered sequence of calls, as the control channel counts them.
struct ProcessLane {
  LaneKey key;
  std::atomic<std::uint64_t>* started = nullptr;  ///< null for messages to oneself
};

/// One rank's end of a group of processes. A transport's own derives from it and makes its calls.
class ProcessGroup : public TransportGroup {
 public:
  /// Both outlive it. `id`: the channel's number for these ranks.
  ProcessGroup(ControlChannel& control, const CallGroup& ranks, std::uint32_t id);
  const CallGroup& ranks() const noexcept { return ranks_; }
  std::uint32_t id() const noexcept { return id_; }
  /// The lane of a call. Lives as long as the group.
  const ProcessLane& lane_of(const Signature& call);

 private:
  ControlChannel& control_;
  const CallGroup& ranks_;
  std::uint32_t id_;
  ProcessLane collectives_;
  std::map<std::pair<int, int>, ProcessLane> pairs_;  ///< by (from, to)
};

class ProcessCall : public PendingCall {
 public:
  /// `group` outlives it.
  ProcessCall(ProcessGroup& group, CollectiveCall&& call, Signature&& signature);

  const Signature& signature() const noexcept final { return signature_; }
  /// World ranks of the calls that are compared, in order: the group's; of a message its sender,
  /// then its receiver.
  std::vector<std::int64_t> parties() const;
  const LaneKey& lane() const noexcept { return lane_.key; }
  /// What this call waits for, for the control channel. Cost: the call's text.
  ControlWait waits_for() const;
  /// Grows with each thing that another may soon follow: who waits looks again soon.
  virtual std::int64_t progress() const noexcept { return 0; }
  /// Its rank waits for it from now on.
  virtual void note_wait() {}
  /// Not all of the peers' signatures are here: a mismatch may yet come to light.
  virtual bool is_comparing() const noexcept = 0;

 protected:
  const ProcessGroup& group() const noexcept { return group_; }
  /// The call's own part of begin().
  virtual bool post() = 0;
  /// Compares with the peers' signatures, as write_signature() has them, in the order of parties()
  /// without this rank. `files` keeps names. Throws FailedPrecondition for a mismatch, DataLoss.
  void compare_with(std::span<const std::string> theirs, std::set<std::string>& files);

 private:
  bool begin() final;

  const ProcessGroup& group_;
  const ProcessLane& lane_;
  Signature signature_;
};

/// All calls are ProcessCalls.
class ProcessTransport : public Transport {
 public:
  explicit ProcessTransport(std::unique_ptr<ControlChannel> control)
      : control_(std::move(control)) {}
  ~ProcessTransport() override;
  ControlChannel& control() noexcept { return *control_; }
  /// This rank's calls are over: says goodbye and waits for the others (after a failure for those
  /// that still answer, ten seconds at most), so that no rank ends the job while another has yet to
  /// speak. `end` is called once, after a failure before this rank is heard to leave, else when all
  /// have left. Returns the job's first failure.
  Status leave(const std::function<void()>& end);

  bool failed() const noexcept final { return control_->failed(); }
  Status failure() const final;
  void poison(const Status& status) final { control_->poison(status); }
  /// Peers may still read or write the buffers of calls that failed: they are never released.
  void keep(std::shared_ptr<PendingCall> call) final { given_up_.push_back(std::move(call)); }

  void begin_wait(PendingCall& call) final;
  void end_wait() noexcept final;
  Status why_in_vain(PendingCall& call) final;
  bool polls(PendingCall&) final;
  Status rest(PendingCall& call, Clock::time_point limit) final;
  std::string stand_of(PendingCall& call) final;

 protected:
  /// The control channel's number for these ranks.
  StatusOr<std::uint32_t> id_of(const CallGroup& group);

 private:
  /// Of one wait. First come polls that read no clock; then ones that give the core away each time;
  /// then sleeps, ever longer, which end when a failure is heard of.
  struct Wait {
    int polls_left = 0;
    bool awaits_verdict = false;  ///< a peer has seen a mismatch
    Clock::time_point verdict_limit = Clock::time_point::max();
    Clock::time_point rests_since{};
    Clock::time_point yields_until{};
    std::chrono::microseconds pause{0};
    std::int64_t progress = 0;
    bool told = false;  ///< the control channel knows what is waited for
  };
  void restart_yields(Clock::time_point now);

  std::unique_ptr<ControlChannel> control_;
  SharedCore core_;
  Wait wait_;
  std::vector<std::shared_ptr<PendingCall>> given_up_;
};

}  // namespace tessera
