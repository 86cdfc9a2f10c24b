// tests/runtime/control_ranks.h: control channels of one job as threads of this process, which meet
// by way of memory. Each thread notes what was wrong; the main thread asserts.
#pragma once

#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/control/channel.h"
#include "tests/support/patience.h"

namespace tessera::testing {

using std::chrono::milliseconds;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Asks again and again until it is so; false where it is not within `limit`.
inline bool becomes_true(const std::function<bool()>& is_so, milliseconds limit = kSoon) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

/// Gives each rank's text to all ranks.
class Rendezvous {
 public:
  explicit Rendezvous(int size) : texts_(static_cast<std::size_t>(size)) {}
  using Tamper = std::function<void(int round, std::vector<std::string>& texts)>;
  /// May change what the ranks get in a round (from 0 up).
  Tamper tamper;

  std::vector<std::string> exchange(std::int64_t rank, const std::string& own) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    texts_[static_cast<std::size_t>(rank)] = own;
    if (++num_here_ == texts_.size()) {
      num_here_ = 0;
      if (tamper) tamper(round, texts_);
      given_ = texts_;
      rounds_.push_back(texts_);
      ++round_;
      moved_.notify_all();
    }
    moved_.wait(lock, [&] { return round_ > round; });
    return given_;
  }
  ExchangeTexts for_rank(std::int64_t rank) {
    return [this, rank](const std::string& own) { return exchange(rank, own); };
  }
  /// What was given in each round.
  const std::vector<std::vector<std::string>>& rounds() const noexcept { return rounds_; }

 private:
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t num_here_ = 0;
  int round_ = 0;
  std::vector<std::string> texts_, given_;
  std::vector<std::vector<std::string>> rounds_;
};

/// One rank of a job under test.
struct Seat {
  std::int64_t rank = 0;
  ControlChannel& channel;
  std::barrier<>& all;
  const Rendezvous& met;
  std::vector<std::string>& complaints;

  void sync() const { all.arrive_and_wait(); }
  void expect(bool is_so, const std::string& claim) const {
    if (!is_so) complaints.push_back("rank " + std::to_string(rank) + ": not " + claim);
  }
  void expect(const Status& seen, const Status& wanted) const {
    expect(seen == wanted, wanted.ToString() + " but " + seen.ToString());
  }
};

inline std::vector<std::string> flatten(const std::vector<std::vector<std::string>>& by_rank) {
  std::vector<std::string> all;
  for (const auto& texts : by_rank) all.insert(all.end(), texts.begin(), texts.end());
  return all;
}

/// Runs `body` on `size` ranks, each with its channel, which all outlive every body. What any rank
/// found wrong; empty where all was well.
inline std::vector<std::string> complaints_of_channels(int size,
                                                       const std::function<void(const Seat&)>& body,
                                                       const ControlOptions& options = {},
                                                       const Rendezvous::Tamper& tamper = {}) {
  Rendezvous rendezvous(size);
  rendezvous.tamper = tamper;
  std::barrier<> all(size);
  std::vector<std::vector<std::string>> complaints(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto& own = complaints[static_cast<std::size_t>(rank)];
      auto channel = ControlChannel::open({rank, size}, options, rendezvous.for_rank(rank));
      if (!channel.ok()) return own.push_back(channel.status().ToString());
      body(Seat{rank, **channel, all, rendezvous, own});
      all.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return flatten(complaints);
}

/// What opening says on each rank.
inline std::vector<Status> open_on_all(int size, Rendezvous& rendezvous,
                                       const ControlOptions& options = {}) {
  std::vector<Status> statuses(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      statuses[static_cast<std::size_t>(rank)] =
          ControlChannel::open({rank, size}, options, rendezvous.for_rank(rank)).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace tessera::testing
