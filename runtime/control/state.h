// runtime/control/state.h: what one rank has heard and has to say, shared by its own thread and the
// background thread that serves its sockets. A verdict is the hub's word on the first failure;
// until it comes, a failure known here stands in for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/control/frame.h"
#include "runtime/control/socket.h"
#include "runtime/environment.h"

namespace tessera {

/// Thread-safety: any thread, unless said otherwise.
class ControlState {
 public:
  using Describe = std::function<std::string(std::int64_t rank)>;
  ControlState(ControlPlace place, WakeUp wake_up);

  const ControlPlace& place() const noexcept { return place_; }

  // What is known.
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  Status first_failure() const;
  std::optional<std::int64_t> missing_for_good(const ControlWait& wait) const;
  std::atomic<std::uint64_t>& started(const LaneKey& lane);
  /// A left rank's state as its last counts tell it; nullopt for one that has not left.
  std::optional<PartyState> state_of_left(std::int64_t rank, const ControlWait& wait) const;
  bool is_hub_gone() const;
  /// Other ranks that have neither left nor died.
  std::vector<std::int64_t> those_still_here() const;

  // What the rank says. Its own thread only.
  void say(control::Message message);
  void waits(ControlWait wait);
  void stops_waiting();
  void leave();
  /// Stands in for the verdict until that comes.
  control::Poison fail(const Status& status);

  // Waiting, by the rank's own thread.
  void sleep(std::chrono::microseconds limit);
  /// True once the hub has judged, or cannot.
  bool wait_for_verdict(std::chrono::milliseconds limit);
  bool wait_until_all_left(std::chrono::milliseconds limit);
  /// The same, also without a hub.
  bool wait_until_all_ended(std::chrono::milliseconds limit);
  StatusOr<std::uint32_t> wait_for_group(std::uint64_t request, std::chrono::milliseconds limit);

  // The background thread.
  void set_describe_dead(Describe describe);
  /// "died", or "died in …" where it is known in what.
  std::string describe_death(std::int64_t rank) const;
  /// Failure, Gone and GroupNumber; other kinds are left alone.
  void hear(const control::Message& message);
  void hear_directly(const control::Poison& poison);
  void lose_hub();
  control::Answer answer(const control::Query& query) const;
  control::ProbeReply answer(const control::Probe& probe) const;
  /// A rank that has left says so itself; the answer is this rank's own departure, or none yet.
  control::Message hear_farewell(std::int64_t rank, const control::Leave& leave);
  /// This rank's departure; none yet: Welcome.
  control::Message own_farewell() const;
  std::vector<control::Message> take_said();

  // The end of the background thread.
  void close();
  bool is_closing() const noexcept { return closing_.load(std::memory_order_acquire); }
  const WakeUp& wake_up() const noexcept { return wake_up_; }

 private:
  struct Other {
    bool ended = false;                 ///< has left or died
    std::optional<StartedCounts> left;  ///< its last counts, where it has left
  };
  Other& other(std::int64_t rank) { return others_[static_cast<std::size_t>(rank)]; }
  const Other& other(std::int64_t rank) const { return others_[static_cast<std::size_t>(rank)]; }
  bool has_place(std::int64_t rank) const noexcept { return rank >= 0 && rank < place_.size; }
  void judge(const Status& verdict);  // under mutex_
  void note_end(const control::Gone& gone);
  void tell();                     // under mutex_: something was heard
  StartedCounts counts() const;    // under mutex_
  void say_now(control::Message);  // under mutex_
  bool all_ended() const;          // under mutex_

  const ControlPlace place_;
  const WakeUp wake_up_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> closing_{false};

  mutable Mutex mutex_;  ///< of all below
  Condition heard_;
  std::uint64_t news_ = 0;       ///< how often something was heard
  std::uint64_t seen_news_ = 0;  ///< by sleep()
  Status verdict_;
  Status stand_in_;
  bool hub_gone_ = false;
  std::vector<Other> others_;                             ///< by rank, own one included
  std::map<std::uint64_t, std::uint32_t> group_numbers_;  ///< answers not yet taken, by request
  std::map<LaneKey, std::atomic<std::uint64_t>> started_;
  std::optional<ControlWait> wait_;
  std::uint64_t num_waits_ = 0;
  std::vector<control::Message> said_;
  Describe describe_dead_;
};

/// A failure as the wire carries it; codes that are none become Unknown.
Status status_of(std::int32_t code, const std::string& text);

}  // namespace tessera
