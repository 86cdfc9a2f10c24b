// runtime/threads/transport.h: the threads backend: ranks are threads of one process, which meet in
// rounds (hub.h) and read their peers' arrays.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "runtime/call/transport.h"
#include "runtime/shared_core.h"
#include "runtime/threads/hub.h"

namespace tessera {

/// Polls for a little while before blocking: ranks of one step arrive close together. Where ranks
/// outnumber cores a poll gives the core away, so that a peer can arrive; where others want the
/// core, there is none.
class ThreadsPolling {
 public:
  using Clock = ThreadsHub::Clock;
  void restart(bool may_spin) {
    spins_left_ = may_spin ? kSpins : 0;
    until_ = {};
  }
  /// False once polling has lasted long enough.
  bool again();

 private:
  static constexpr int kSpins = 500;
  SharedCore core_;
  int spins_left_ = 0;
  Clock::time_point until_{};
};

class ThreadsTransport final : public Transport {
 public:
  /// What a rank has of its own. `threads`: library threads that it may run.
  struct Own {
    std::int64_t rank = 0;
    int threads = 1;
  };
  ThreadsTransport(std::shared_ptr<ThreadsHub> hub, const Own& own)
      : hub_(std::move(hub)), own_(own) {}

  ThreadsHub& hub() noexcept { return *hub_; }
  int threads() const noexcept { return own_.threads; }
  void notify_others(ThreadsRound& round);

  std::int64_t rank() const noexcept override { return own_.rank; }
  std::int64_t size() const noexcept override { return hub_->num_ranks(); }
  double now_us() const override;
  StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) override;

  bool failed() const noexcept override { return hub_->failed(); }
  Status failure() const override { return hub_->as_unavailable(); }
  void poison(const Status& status) override { hub_->poison(own_.rank, status); }

  void begin_wait(PendingCall&) override;
  void end_wait() noexcept override { hub_->stop_waiting(own_.rank); }
  void look() override { seen_ = hub_->signal(own_.rank); }
  Status why_in_vain(PendingCall& call) override;
  bool polls(PendingCall&) override { return polling_.again(); }
  Status rest(PendingCall& call, Clock::time_point limit) override;
  std::string stand_of(PendingCall& call) override;

 private:
  Status deadlocked();

  std::shared_ptr<ThreadsHub> hub_;
  Own own_;
  ThreadsHub::View last_view_;
  // Of the present wait.
  ThreadsPolling polling_;
  std::uint32_t seen_ = 0;  ///< the signal before the calls went on
  bool described_ = false;  ///< the hub knows what is waited for
};

}  // namespace tessera
