#include "runtime/threads/hub.h"

#include <thread>
#include <utility>

#include "runtime/rank_text.h"

namespace tessera {

// ---- rounds

ThreadsRound::ThreadsRound(std::span<const std::int64_t> parties, std::uint64_t sequence)
    : parties_(parties.begin(), parties.end()), sequence_(sequence), posts_(parties.size()) {}

bool ThreadsRound::arrive(int party) {
  interleave();
  post(party).arrived.store(true, std::memory_order_release);
  interleave();
  if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != size()) return false;
  compare();
  interleave();
  ready_.store(true, std::memory_order_release);
  return true;
}

void ThreadsRound::compare() {
  std::vector<const Signature*> calls;
  calls.reserve(posts_.size());
  for (const ThreadsPost& post : posts_) {
    calls.push_back(&post.signature);
    awaited_ = awaited_ || post.read_by_others;
  }
  verdict_ = compare_calls(calls, parties_);
}

std::shared_ptr<ThreadsRound> ThreadsLane::join(std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<std::size_t>(sequence - first_);
  if (at == open_.size()) open_.push_back({std::make_shared<ThreadsRound>(parties_, sequence), 0});
  ++open_[at].joined;
  std::shared_ptr<ThreadsRound> round = open_[at].round;
  while (!open_.empty() && open_.front().joined == parties_.size()) {
    open_.pop_front();
    ++first_;
  }
  return round;
}

ThreadsLane& ThreadsGroup::channel(int from, int to) {
  const std::lock_guard lock(mutex_);
  const auto world_rank = [&](int rank) { return ranks()[static_cast<std::size_t>(rank)]; };
  return channels_
      .try_emplace({from, to}, std::vector<std::int64_t>{world_rank(from), world_rank(to)})
      .first->second;
}

// ---- the hub

ThreadsHub::ThreadsHub(int num_ranks, std::chrono::milliseconds timeout)
    : places_(static_cast<std::size_t>(num_ranks)),
      timeout_(timeout),
      may_spin_(environment() == nullptr &&
                std::thread::hardware_concurrency() >= static_cast<unsigned>(num_ranks)) {}

std::shared_ptr<ThreadsGroup> ThreadsHub::group(const std::vector<std::int64_t>& ranks) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<ThreadsGroup>& group = groups_[ranks];
  if (group == nullptr) group = std::make_shared<ThreadsGroup>(ranks);
  return group;
}

void ThreadsHub::poison(std::int64_t rank, const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
    const std::string text = told_by(rank, message_of(status));
    failure_ = Status(status.code(), to_absl(text));
    failed_.store(true, std::memory_order_release);
  }
  interleave();
  notify_all();
}

Status ThreadsHub::first_failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void ThreadsHub::leave(std::int64_t rank) {
  place(rank).left.store(true, std::memory_order_release);
  interleave();
  num_left_.fetch_add(1, std::memory_order_release);
  notify_all();
}

std::optional<std::int64_t> ThreadsHub::missing_for_good(ThreadsRound& round) const {
  if (num_left_.load(std::memory_order_acquire) == 0 || round.is_ready()) return std::nullopt;
  for (int party = 0; party < round.size(); ++party) {
    // Left first, then arrived: whoever left has posted all that it ever will.
    const std::int64_t rank = round.parties()[static_cast<std::size_t>(party)];
    const bool left = place(rank).left.load(std::memory_order_acquire);
    interleave();
    if (left && !round.post(party).arrived.load(std::memory_order_acquire)) return rank;
  }
  return std::nullopt;
}

// ---- waiting

void ThreadsHub::notify(std::int64_t rank) {
  Place& at = place(rank);
  at.signal.fetch_add(1);
  interleave();
  if (!at.parked.load()) return;  // it will see the signal before it sleeps
  { const std::lock_guard lock(at.mutex); }
  at.wake.notify_one();
}

void ThreadsHub::notify_all() {
  for (int rank = 0; rank < num_ranks(); ++rank) notify(rank);
}

std::uint32_t ThreadsHub::signal(std::int64_t rank) const {
  return place(rank).signal.load(std::memory_order_acquire);
}

bool ThreadsHub::park(std::int64_t rank, std::uint32_t seen, Clock::time_point until) {
  Place& at = place(rank);
  const std::uint64_t waiting = at.waiting.load(std::memory_order_relaxed);
  if (waiting == 0 || static_cast<std::uint32_t>(waiting) != seen) {
    at.waiting.store((std::uint64_t{++at.num_waits} << 32) | seen);
  }
  std::unique_lock lock(at.mutex);
  at.parked.store(true);
  interleave();
  const bool moved = at.wake.wait_until(lock, until, [&] { return at.signal.load() != seen; });
  at.parked.store(false);
  return moved;
}

void ThreadsHub::stop_waiting(std::int64_t rank) {
  place(rank).waiting.store(0);
  place(rank).described.store(false);
}

void ThreadsHub::describe_wait(std::int64_t rank, std::string text) {
  Place& at = place(rank);
  const std::lock_guard lock(at.mutex);
  at.waits_for = std::move(text);
  at.described.store(true);
}

ThreadsHub::View ThreadsHub::all_parked() const {
  View view;
  for (const Place& at : places_) {
    interleave();
    const std::uint64_t waiting = at.waiting.load();
    // A rank that has not yet said what it waits for is not judged: the text would lack it.
    const bool idle = waiting != 0 && static_cast<std::uint32_t>(waiting) == at.signal.load() &&
                      at.described.load();
    if (!at.left.load() && !idle) return {};
    view.push_back(waiting);
  }
  return view;
}

std::string ThreadsHub::describe_all() const {
  std::string text = "no rank can go on:";
  for (int rank = 0; rank < num_ranks(); ++rank) {
    const Place& at = place(rank);
    text += (rank == 0 ? " rank " : "; rank ") + std::to_string(rank);
    const std::lock_guard lock(at.mutex);
    text += at.left.load() ? " has returned" : " waits in " + at.waits_for;
  }
  return text;
}

}  // namespace tessera
