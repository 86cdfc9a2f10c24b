// runtime/threads_communicator.h: the threads backend: one rank's end of a group, and its calls in
// flight. Progress happens in a rank's waits: whichever call it waits for, it does the copies of
// all that can go on.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/event.h"
#include "runtime/recorder.h"
#include "runtime/shared_core.h"
#include "runtime/threads_hub.h"

namespace tessera {

class ThreadsRank;

/// One call of one rank. The rank's list of pending calls holds it until it is over, so dropping a
/// handle is safe.
class ThreadsWork final : public Work {
 public:
  struct Place {
    std::shared_ptr<ThreadsRound> round;
    int party = 0;
  };
  ThreadsWork(ThreadsRank& rank, Place place, std::chrono::milliseconds timeout);

  void wait() override;
  std::int64_t bytes_received() const override { return bytes_received_; }

  ThreadsRound& round() noexcept { return *place_.round; }
  ThreadsPost& post() noexcept { return place_.round->post(place_.party); }
  int party() const noexcept { return place_.party; }
  void set_bytes_received(std::int64_t bytes) noexcept { bytes_received_ = bytes; }
  /// What to log when the call is over.
  void set_event(Event event) { event_ = std::move(event); }
  /// The call's number in the flight record.
  void set_ticket(std::uint64_t ticket) noexcept { ticket_ = ticket; }
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  bool is_over() const noexcept { return phase_ == Phase::kFinished || phase_ == Phase::kFailed; }

  /// Goes on as far as it can without waiting.
  void advance();
  /// The arrays stay with the round: peers may still be reading.
  void fail(Status status);
  /// "all_reduce #3 of …: arrived: ranks 0, 1; not arrived: rank 2"
  std::string describe();

 private:
  enum class Phase : std::uint8_t { kPosted, kMoved, kFinished, kFailed };
  void move_data();
  void finish();

  ThreadsRank* rank_;
  Place place_;
  std::chrono::milliseconds timeout_;
  Phase phase_ = Phase::kPosted;
  Status status_;
  std::int64_t bytes_received_ = 0;
  std::optional<Event> event_;
  std::uint64_t ticket_ = 0;
};

/// What all groups of one rank share. Thread-safety: its own rank's thread only.
class ThreadsRank {
 public:
  /// What a rank has of its own. `threads`: library threads that it may run.
  struct Own {
    std::int64_t rank = 0;
    int threads = 1;
  };
  ThreadsRank(std::shared_ptr<ThreadsHub> hub, const Own& own, EventLog& log,
              FlightRecorder& recorder)
      : hub_(std::move(hub)), own_(own), log_(log), recorder_(recorder) {}
  ~ThreadsRank();
  ThreadsRank(const ThreadsRank&) = delete;
  ThreadsRank& operator=(const ThreadsRank&) = delete;

  ThreadsHub& hub() noexcept { return *hub_; }
  std::int64_t rank() const noexcept { return own_.rank; }
  int threads() const noexcept { return own_.threads; }
  EventLog& log() noexcept { return log_; }
  FlightRecorder& recorder() noexcept { return recorder_; }
  double now_us() const;

  void add(std::shared_ptr<ThreadsWork> work) { pending_.push_back(std::move(work)); }
  /// Until the work is over; throws what it failed with.
  void wait(ThreadsWork& work);
  /// Waits for all calls still pending, in order.
  void finish_all();
  void notify_others(ThreadsRound& round);

 private:
  void advance_all();
  /// Why waiting is in vain; OK where it is not.
  Status hopeless(ThreadsWork& work) const;
  Status timed_out(ThreadsWork& work) const;
  Status deadlocked();
  void wait_until_over(ThreadsWork& work);

  std::shared_ptr<ThreadsHub> hub_;
  Own own_;
  EventLog& log_;
  FlightRecorder& recorder_;
  std::vector<std::shared_ptr<ThreadsWork>> pending_;
  ThreadsHub::View last_view_;
  SharedCore core_;
};

class ThreadsCommunicator final : public Communicator {
 public:
  ThreadsCommunicator(ThreadsRank& rank, std::shared_ptr<ThreadsGroup> group, int group_rank);

  int rank() const noexcept override { return group_rank_; }
  int size() const noexcept override { return static_cast<int>(group_->ranks().size()); }
  std::int64_t world_rank(int group_rank) const override {
    return group_->ranks()[static_cast<std::size_t>(group_rank)];
  }
  std::shared_ptr<Work> start(CollectiveCall call, const CallInfo& info) override;

 private:
  /// The round that a call belongs to, and this rank's place in it.
  ThreadsWork::Place join(const CollectiveCall& call);

  ThreadsRank& rank_;
  std::shared_ptr<ThreadsGroup> group_;
  int group_rank_;
  std::uint32_t recorded_group_;
  std::uint64_t next_ = 0;
  struct Channel {
    ThreadsLane* lane = nullptr;
    std::uint64_t next = 0;
  };
  std::map<int, Channel> to_, from_;  ///< by peer
};

}  // namespace tessera
