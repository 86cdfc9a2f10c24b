// runtime/shared_core.h: whether a rank that waits had better sleep than give its core away.
#pragma once

#include <chrono>

#include "runtime/environment.h"

namespace tessera {

/// The core under a rank that waits. Where others compute on it, Linux lets one that gave it away
/// wait for their whole time slices, and one that slept have it back at once.
class SharedCore {
 public:
  using Clock = RankClock;
  /// Another than a peer who waits too has lately kept the core that was given away. Reads no clock
  /// unless one ever has.
  bool is_wanted() const noexcept {
    return wanted_until_ != Clock::time_point{} && Clock::now() < wanted_until_;
  }
  void give_away() {
    const Clock::time_point before = Clock::now();
    yield_core();
    const Clock::time_point now = Clock::now();
    if (now - before > kSlice) wanted_until_ = now + kBelief;
  }

 private:
  static constexpr std::chrono::microseconds kSlice{500};
  static constexpr std::chrono::milliseconds kBelief{100};
  Clock::time_point wanted_until_{};
};

}  // namespace tessera
