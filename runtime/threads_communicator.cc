#include "runtime/threads_communicator.h"

#include <algorithm>
#include <string>

#include "runtime/flows.h"
#include "runtime/threads_device.h"
#include "runtime/threads_transfer.h"

namespace tessera {
namespace {

using Clock = ThreadsHub::Clock;
using Kind = CollectiveCall::Kind;

// A parked rank looks this often whether anyone can still go on.
constexpr std::chrono::milliseconds kLook{100};

/// Polls for a little while before blocking: ranks of one step arrive close together. Where ranks
/// outnumber cores a poll gives the core away, so that a peer can arrive; where others want the
/// core, there is none.
class Polling {
 public:
  Polling(bool may_spin, SharedCore& core) : core_(core), spins_left_(may_spin ? 500 : 0) {}
  /// False once polling has lasted long enough.
  bool again() {
    if (spins_left_ > 0) {
      --spins_left_;
      relax();
      return true;
    }
    if (core_.is_wanted()) return false;
    const Clock::time_point now = Clock::now();
    if (until_ == Clock::time_point{}) until_ = now + std::chrono::microseconds(50);
    if (now >= until_) return false;
    core_.give_away();
    return true;
  }

 private:
  static void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }
  SharedCore& core_;
  int spins_left_;
  Clock::time_point until_{};
};

}  // namespace

// ---- ThreadsWork

ThreadsWork::ThreadsWork(ThreadsRank& rank, Place place, std::chrono::milliseconds timeout)
    : rank_(&rank), place_(std::move(place)), timeout_(timeout) {}

void ThreadsWork::wait() {
  if (!is_over()) rank_->wait(*this);
  if (phase_ == Phase::kFailed) throw Error(status_);
}

void ThreadsWork::advance() {
  if (phase_ == Phase::kPosted && round().is_ready()) {
    if (!round().verdict().ok()) {
      // Everyone in the group sees the same verdict; the others hear of it.
      rank_->hub().poison(rank_->rank(), round().verdict());
      fail(round().verdict());
      return;
    }
    move_data();
  }
  if (phase_ == Phase::kMoved && (!post().read_by_others || round().is_done())) finish();
}

void ThreadsWork::move_data() {
  rank_->recorder().matched(ticket_);
  if (post().device != nullptr) {
    transfer_on_device(round(), place_.party);
  } else {
    transfer(round(), place_.party, rank_->threads());
  }
  phase_ = Phase::kMoved;
  const bool last = round().leave();
  if (last && round().is_awaited()) rank_->notify_others(round());
}

void ThreadsWork::finish() {
  phase_ = Phase::kFinished;
  if (post().device != nullptr) finish_on_device(round(), place_.party);
  rank_->recorder().finished(ticket_);
  mark_written(*post().call);
  // Peers do not look at the call: its arrays may go, so that no storage waits on a work that holds
  // it.
  post().call.reset();
  if (event_) {
    event_->end_us = rank_->now_us();
    rank_->log().add(*std::move(event_));
    event_.reset();
  }
  rank_ = nullptr;
}

void ThreadsWork::fail(Status status) {
  phase_ = Phase::kFailed;
  rank_->recorder().failed(ticket_);
  status_ = std::move(status);
  rank_ = nullptr;
}

std::string ThreadsWork::describe() {
  std::string text = to_string(post().signature);
  if (round().is_ready()) return text + ": all arrived, not all have taken their data";
  std::vector<std::int64_t> arrived, missing;
  for (int i = 0; i < round().size(); ++i) {
    const bool here = round().post(i).arrived.load(std::memory_order_acquire);
    (here ? arrived : missing).push_back(round().parties()[static_cast<std::size_t>(i)]);
  }
  return text + ": arrived: " + list_ranks(arrived) + "; not arrived: " + list_ranks(missing);
}

// ---- ThreadsRank

ThreadsRank::~ThreadsRank() {
  for (const auto& work : pending_) {
    if (!work->is_over()) work->fail(unavailable("the World of this call is gone"));
  }
}

double ThreadsRank::now_us() const {
  return std::chrono::duration<double, std::micro>(Clock::now() - hub_->start()).count();
}

void ThreadsRank::notify_others(ThreadsRound& round) {
  for (const std::int64_t party : round.parties()) {
    if (party != own_.rank) hub_->notify(party);
  }
}

void ThreadsRank::advance_all() {
  for (const auto& work : pending_) work->advance();
  std::erase_if(pending_, [](const auto& work) { return work->is_over(); });
}

Status ThreadsRank::hopeless(ThreadsWork& work) const {
  if (hub_->failed()) return hub_->as_unavailable();
  if (const auto gone = hub_->missing_for_good(work.round())) {
    // A rank that fails says so before it leaves: it may have done both just now.
    if (hub_->failed()) return hub_->as_unavailable();
    return failed_precondition("rank " + std::to_string(*gone) + " returned without joining " +
                               work.describe());
  }
  return absl::OkStatus();
}

Status ThreadsRank::timed_out(ThreadsWork& work) const {
  const std::string text =
      "timed out after " + std::to_string(work.timeout().count()) + " ms in " + work.describe();
  return absl::DeadlineExceededError(to_absl(text));
}

Status ThreadsRank::deadlocked() {
  ThreadsHub::View view = hub_->all_parked();
  const bool stuck = !view.empty() && view == last_view_;
  last_view_ = std::move(view);
  return stuck ? failed_precondition(hub_->describe_all()) : absl::OkStatus();
}

void ThreadsRank::wait_until_over(ThreadsWork& work) {
  const bool for_ever = work.timeout() < std::chrono::milliseconds::zero();
  const auto begin = Clock::now();
  const auto deadline = for_ever ? Clock::time_point::max() : begin + work.timeout();
  Polling polling(hub_->may_spin(), core_);
  bool described = false;
  for (;;) {
    const std::uint32_t seen = hub_->signal(own_.rank);
    advance_all();
    if (work.is_over()) return;
    Status failure = hopeless(work);
    if (failure.ok() && polling.again()) continue;
    const auto now = Clock::now();
    if (failure.ok() && now >= deadline) failure = timed_out(work);
    if (failure.ok() && !hub_->park(own_.rank, seen, std::min(deadline, now + kLook))) {
      if (!described) hub_->describe_wait(own_.rank, work.describe());
      described = true;
      failure = deadlocked();
    }
    if (failure.ok()) continue;
    // The hub may have moved on since this was found out: data that are there win.
    advance_all();
    if (work.is_over()) return;
    hub_->poison(own_.rank, failure);
    work.fail(std::move(failure));
    advance_all();
    return;
  }
}

void ThreadsRank::wait(ThreadsWork& work) {
  // The list may hold the last handle.
  const auto held = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const auto& other) { return other.get() == &work; });
  const std::shared_ptr<ThreadsWork> keep = held == pending_.end() ? nullptr : *held;
  wait_until_over(work);
  hub_->stop_waiting(own_.rank);
}

void ThreadsRank::finish_all() {
  while (!pending_.empty()) {
    const std::shared_ptr<ThreadsWork> first = pending_.front();
    if (first->is_over()) {
      advance_all();
    } else {
      first->wait();
    }
  }
}

// ---- ThreadsCommunicator

ThreadsCommunicator::ThreadsCommunicator(ThreadsRank& rank, std::shared_ptr<ThreadsGroup> group,
                                         int group_rank)
    : rank_(rank),
      group_(std::move(group)),
      group_rank_(group_rank),
      recorded_group_(rank.recorder().add_group(group_->ranks())) {}

ThreadsWork::Place ThreadsCommunicator::join(const CollectiveCall& call) {
  if (call.kind != Kind::kSend && call.kind != Kind::kRecv) {
    return {group_->collectives().join(next_++), group_rank_};
  }
  const bool sends = call.kind == Kind::kSend;
  Channel& channel = (sends ? to_ : from_)[call.root];
  if (channel.lane == nullptr) {
    channel.lane = &(sends ? group_->channel(group_rank_, call.root)
                           : group_->channel(call.root, group_rank_));
  }
  return {channel.lane->join(channel.next++), sends ? 0 : 1};
}

std::shared_ptr<Work> ThreadsCommunicator::start(CollectiveCall call, const CallInfo& info) {
  ThreadsHub& hub = rank_.hub();
  if (hub.failed()) throw Error(hub.as_unavailable());
  const GroupPlace place{group_rank_, size()};
  throw_if_error(prepare(call, place));
  wait_ready(call);

  const auto timeout = info.timeout.count() == 0 ? hub.timeout() : info.timeout;
  const Traffic traffic = traffic_of(call, place);
  auto work = std::make_shared<ThreadsWork>(rank_, join(call), timeout);
  work->set_bytes_received(traffic.received);
  ThreadsRound& round = work->round();
  if (std::optional<Event> event = make_event(call, info, traffic)) {
    event->module = rank_.log().module();
    if (rank_.log().is_tracing()) {
      event->trace = trace_of(call, {place, group_->ranks(), round.sequence()});
    }
    event->start_us = rank_.now_us();
    work->set_event(*std::move(event));
  }
  ThreadsPost& post = work->post();
  post.signature = make_signature(call, info, round.sequence());
  work->set_ticket(rank_.recorder().started(post.signature, recorded_group_));
  post.call = std::move(call);
  if (Device& device = device_of(*post.call); &device != &cpu_device()) {
    post.device = &device;
    publish_on_device(post, place);
  } else {
    publish_data(post, place);
  }
  if (round.arrive(work->party())) rank_.notify_others(round);
  rank_.add(work);
  return work;
}

}  // namespace tessera
