// runtime/threads/hub.h: what rank threads of one world share: rounds, places to wait, failure, who
// has left. A lane is an ordered sequence of rounds among some parties; in a round each party posts
// one call.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/call/signature.h"
#include "runtime/environment.h"

namespace tessera {

/// One party's call. Written by its owner before it arrives; after that peers read what is not the
/// owner's.
struct ThreadsPost {
  Signature signature;
  const std::byte* source = nullptr;     ///< where peers read; inside `staged` for small calls
  std::vector<const std::byte*> parts;   ///< the same for each part of an exchange
  std::byte* target = nullptr;           ///< where peers write (large all_reduce, peer_rows)
  std::int64_t rows = 0;                 ///< of `target` or `source` (peer_rows)
  std::unique_ptr<std::byte[]> staged;   ///< a copy of a small source, which frees the owner early
  bool read_by_others = false;           ///< the owner's arrays stay in use until all are done
  Device* device = nullptr;              ///< where the call's arrays lie; null: on the host
  Mark ready;                            ///< of a device: the arrays may be read and written
  Mark moved;                            ///< and this party's share of the work is done
  std::vector<Array> kept;               ///< the owner's: what that work needs besides the arrays
  const CollectiveCall* call = nullptr;  ///< the owner's, until it is over
  std::optional<CollectiveCall> left;  ///< of a call that failed: arrays that peers may still read
  std::atomic<bool> arrived{false};
};

/// One collective in flight.
class ThreadsRound {
 public:
  ThreadsRound(std::span<const std::int64_t> parties, std::uint64_t sequence);

  const std::vector<std::int64_t>& parties() const noexcept { return parties_; }  ///< world ranks
  int size() const noexcept { return static_cast<int>(parties_.size()); }
  std::uint64_t sequence() const noexcept { return sequence_; }
  ThreadsPost& post(int party) { return posts_[static_cast<std::size_t>(party)]; }

  /// Publishes a party's post. The last to come compares the signatures; true for it.
  bool arrive(int party);
  bool is_ready() const noexcept { return ready_.load(std::memory_order_acquire); }
  /// Requires is_ready(). Not OK where two calls differ.
  const Status& verdict() const noexcept { return verdict_; }

  /// A party has read and written all that it will; true for the last.
  bool leave() noexcept {
    interleave();
    return num_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == size();
  }
  bool is_done() const noexcept { return num_done_.load(std::memory_order_acquire) == size(); }
  /// Requires is_ready(). True if some party waits for is_done().
  bool is_awaited() const noexcept { return awaited_; }

 private:
  void compare();

  std::vector<std::int64_t> parties_;
  std::uint64_t sequence_;
  std::vector<ThreadsPost> posts_;
  std::atomic<int> num_arrived_{0};
  std::atomic<int> num_done_{0};
  std::atomic<bool> ready_{false};
  bool awaited_ = false;
  Status verdict_;
};

class ThreadsLane {
 public:
  explicit ThreadsLane(std::vector<std::int64_t> parties) : parties_(std::move(parties)) {}
  const std::vector<std::int64_t>& parties() const noexcept { return parties_; }
  /// The round of this number. Every party joins every number once, in order.
  std::shared_ptr<ThreadsRound> join(std::uint64_t sequence);

 private:
  struct Open {
    std::shared_ptr<ThreadsRound> round;
    std::size_t joined = 0;
  };
  std::vector<std::int64_t> parties_;
  Mutex mutex_;
  std::deque<Open> open_;  ///< rounds that not all parties have joined
  std::uint64_t first_ = 0;
};

/// The lanes of one list of ranks: one for collectives, one for each ordered pair that talks.
class ThreadsGroup {
 public:
  explicit ThreadsGroup(std::vector<std::int64_t> ranks) : collectives_(std::move(ranks)) {}
  const std::vector<std::int64_t>& ranks() const noexcept { return collectives_.parties(); }
  ThreadsLane& collectives() noexcept { return collectives_; }
  /// Party 0 sends, party 1 receives.
  ThreadsLane& channel(int from, int to);

 private:
  ThreadsLane collectives_;
  Mutex mutex_;
  std::map<std::pair<int, int>, ThreadsLane> channels_;
};

/// Thread-safety: all functions but those that say otherwise may be called by any rank.
class ThreadsHub {
 public:
  using Clock = RankClock;
  ThreadsHub(int num_ranks, std::chrono::milliseconds timeout);

  int num_ranks() const noexcept { return static_cast<int>(places_.size()); }
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  Clock::time_point start() const noexcept { return start_; }
  /// Spinning pays only while every rank has a core.
  bool may_spin() const noexcept { return may_spin_; }
  std::shared_ptr<ThreadsGroup> group(const std::vector<std::int64_t>& ranks);

  /// Keeps the first failure and wakes everyone.
  void poison(std::int64_t rank, const Status& status);
  bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  /// The first failure with its own code, "rank 3: …"; OK while there is none.
  Status first_failure() const;
  /// Where a rank shows the others a mark. Barriers order its reads and writes.
  Mark& mark_of(std::int64_t rank) { return place(rank).mark; }
  /// The same as other ranks see it.
  Status as_unavailable() const { return unavailable(message_of(first_failure())); }

  /// `rank`'s body has returned.
  void leave(std::int64_t rank);
  /// Of these ranks, the first that has returned and has no post in `round`; nullopt where none.
  std::optional<std::int64_t> missing_for_good(ThreadsRound& round) const;

  // Waiting. A rank reads its signal, looks at what it waits for, and parks until the signal has
  // moved.
  void notify(std::int64_t rank);
  std::uint32_t signal(std::int64_t rank) const;
  /// For `rank` itself only. False once `until` is past.
  bool park(std::int64_t rank, std::uint32_t seen, Clock::time_point until);
  /// For `rank` itself only: it waits no more.
  void stop_waiting(std::int64_t rank);
  /// For `rank` itself only: what it waits for, for the text of a deadlock.
  void describe_wait(std::int64_t rank, std::string text);

  /// What each rank was seen waiting at; equal views at two times mean that nothing moved between
  /// them.
  using View = std::vector<std::uint64_t>;
  /// Empty unless every rank either has returned or is parked without a signal to look at.
  View all_parked() const;
  /// "no rank can go on: rank 0 waits in …; rank 1 has returned"
  std::string describe_all() const;

 private:
  struct alignas(64) Place {
    std::atomic<std::uint32_t> signal{0};
    std::atomic<bool> parked{false};
    std::atomic<std::uint64_t> waiting{
        0};  ///< number of the wait << 32 | signal it saw; 0: running
    std::atomic<bool> left{false};
    std::uint32_t num_waits = 0;  ///< the owner's
    mutable Mutex mutex;
    Condition wake;
    std::string waits_for;               ///< under mutex
    Mark mark;                           ///< the owner's; see mark_of()
    std::atomic<bool> described{false};  ///< waits_for speaks of the present wait
  };
  Place& place(std::int64_t rank) { return places_[static_cast<std::size_t>(rank)]; }
  const Place& place(std::int64_t rank) const { return places_[static_cast<std::size_t>(rank)]; }
  void notify_all();

  std::vector<Place> places_;
  std::chrono::milliseconds timeout_;
  Clock::time_point start_ = Clock::now();
  bool may_spin_;
  std::atomic<int> num_left_{0};
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status failure_;                                                             ///< under mutex_
  std::map<std::vector<std::int64_t>, std::shared_ptr<ThreadsGroup>> groups_;  ///< under mutex_
};

}  // namespace tessera
