#include "runtime/mpi/communicator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "runtime/environment.h"
#include "runtime/flows.h"
#include "runtime/mpi/direct_call.h"

namespace tessera {
namespace {

using Clock = RankClock;
using Kind = CollectiveCall::Kind;

// A rank that waits this long tells the control channel for what.
constexpr std::chrono::milliseconds kLook{50};
// So many ranks are asked where they stand; each costs a connection.
constexpr std::int64_t kMostAsked = 512;
// Time that a rank which timed out gives its peers to say where they stand.
constexpr std::chrono::milliseconds kAskLimit{300};
// Time to see a mismatch oneself once a peer has: its signature is on the way.
constexpr std::chrono::milliseconds kVerdictLimit{300};

/// Polls while peers of one step arrive close together, giving the core away each time; then sleeps
/// ever longer, and at once where others want the core. A sleep ends when a failure is heard of.
class Polling {
 public:
  Polling(ControlChannel& control, SharedCore& core) : control_(control), core_(core) {}
  /// Something has come; more may be close behind.
  void restart(Clock::time_point now) {
    yield_until_ = now + kYields;
    pause_ = kFirstPause;
  }
  void rest(Clock::time_point now) {
    if (now < yield_until_ && !core_.is_wanted()) {
      core_.give_away();
      return;
    }
    control_.sleep(pause_);
    pause_ = std::min(pause_ * 3 / 2, std::chrono::microseconds(500));
  }

 private:
  static constexpr std::chrono::milliseconds kYields{2};
  static constexpr std::chrono::microseconds kFirstPause{20};

  ControlChannel& control_;
  SharedCore& core_;
  Clock::time_point yield_until_ = Clock::now() + kYields;
  std::chrono::microseconds pause_ = kFirstPause;
};

bool is_pair(Kind kind) noexcept { return kind == Kind::kSend || kind == Kind::kRecv; }

}  // namespace

// ---- MpiWork

MpiWork::MpiWork(MpiRank& rank, const MpiGroup& group) : rank_(&rank), group_(group) {}

void MpiWork::wait() {
  if (!is_over()) rank_->wait(*this);
  if (phase_ == Phase::kFailed) throw Error(status_);
}

void MpiWork::begin() {
  ticket_ = rank_->recorder().started(start_.signature, group_.record);
  guarded([&] { post(); });
}

void MpiWork::post() {
  const Signature& own = start_.signature;
  if (&device_of(start_.call) != &cpu_device()) meet_device();
  if (rank_->options().checks == CallChecks::kOff || group_.ranks.size() == 1) {
    agreed();
    return;
  }
  SignatureParties parties;
  const auto tag = [&](MessagePart part) { return MpiLink::tag(group_.id, own.sequence, part); };
  if (is_pair(own.kind)) {
    const bool sends = own.kind == Kind::kSend;
    const std::int64_t self = group_.ranks[static_cast<std::size_t>(group_.rank)];
    const std::int64_t peer = group_.ranks[static_cast<std::size_t>(own.root)];
    if (peer == self) {
      agreed();
      return;
    }
    parties.ranks = sends ? std::vector{self, peer} : std::vector{peer, self};
    parties.self = sends ? 0 : 1;
    parties.send_tag = tag(sends ? MessagePart::kSenderSignature : MessagePart::kReceiverSignature);
    parties.recv_tag = tag(sends ? MessagePart::kReceiverSignature : MessagePart::kSenderSignature);
  } else {
    parties.ranks = group_.ranks;
    parties.self = static_cast<std::size_t>(group_.rank);
    parties.send_tag = parties.recv_tag = tag(MessagePart::kSignature);
  }
  exchange_.emplace(rank_->link(), std::move(parties), own);
}

void MpiWork::meet_device() {
  DevicePath path = rank_->device_path();
  std::optional<DirectCall> direct;
  if (path == DevicePath::kDirect) {
    direct = make_direct_call(place(), start_.call, start_.signature);
  }
  if (direct) {
    device_ = std::move(direct->device);
    movement_ = std::move(direct->movement);
  } else {
    path = DevicePath::kStaged;
    staged_ = std::make_unique<StagedCall>(start_.call, group_.rank, rank_->staging());
  }
  if (start_.event) start_.event->device_path = path;
}

MovementPlace MpiWork::place() {
  return {.link = &rank_->link(),
          .host = &rank_->host(),
          .ranks = group_.ranks,
          .group = {group_.rank, static_cast<int>(group_.ranks.size())},
          .group_id = group_.id,
          .sequence = start_.signature.sequence,
          .allocator = rank_->host_memory()};
}

void MpiWork::agreed() {
  phase_ = Phase::kWaiting;
  if (is_ready()) begin_moving();
}

void MpiWork::begin_moving() {
  phase_ = Phase::kMoving;
  if (movement_ == nullptr) {
    movement_ =
        make_movement(place(), staged_ ? staged_->on_host() : start_.call, start_.signature);
  }
  movement_->begin();
}

void MpiWork::step() {
  if (phase_ == Phase::kComparing) {
    if (!exchange_->advance(rank_->link())) return;
    throw_if_error(exchange_->verdict(start_.signature, rank_->files()));
    rank_->recorder().matched(ticket_);
    exchange_.reset();
    // The signatures were the barrier.
    if (start_.signature.kind == Kind::kBarrier) {
      finish();
      return;
    }
    agreed();
  } else if (phase_ == Phase::kWaiting && is_ready()) {
    begin_moving();
  }
  if (phase_ == Phase::kMoving && movement_->advance()) finish();
}

void MpiWork::advance() {
  if (!is_over()) guarded([&] { step(); });
}

template <class F>
void MpiWork::guarded(F&& part) {
  try {
    part();
  } catch (const Error& error) {
    rank_->control().poison(error.status());
    fail(error.status());
  }
}

void MpiWork::finish() {
  if (staged_) staged_->bring_up();
  if (device_) device_->finish();
  phase_ = Phase::kFinished;
  mark_written(start_.call);
  movement_.reset();
  staged_.reset();
  device_.reset();
  // The arrays may go, so that no storage waits on a work that holds it.
  start_.call.in = {};
  start_.call.out = {};
  start_.call.parts.clear();
  rank_->recorder().finished(ticket_);
  if (start_.event) {
    start_.event->end_us = rank_->now_us();
    rank_->log().add(*std::move(start_.event));
    start_.event.reset();
  }
  rank_ = nullptr;
}

void MpiWork::fail(Status status) {
  phase_ = Phase::kFailed;
  status_ = std::move(status);
  if (exchange_) exchange_->abandon();
  if (movement_) movement_->abandon();
  rank_->link().abandon();
  rank_->recorder().failed(ticket_);
  rank_ = nullptr;
}

ControlWait MpiWork::waits_for() const {
  ControlWait wait{
      .lane = start_.lane,
      .sequence = start_.signature.sequence,
      .parties = group_.ranks,
      .text = describe() + " [group of ranks " + to_string(ShapeView(group_.ranks)) + "]"};
  if (is_pair(start_.signature.kind)) {
    wait.parties = {group_.ranks[static_cast<std::size_t>(group_.rank)],
                    group_.ranks[static_cast<std::size_t>(start_.signature.root)]};
  }
  return wait;
}

// ---- MpiRank

/// Tells the control channel, once, what this rank waits for, until the wait is over.
class MpiRank::Telling {
 public:
  explicit Telling(ControlChannel& control) : control_(control) {}
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;
  ~Telling() {
    if (told_) control_.stops_waiting();
  }
  bool has_told() const noexcept { return told_; }
  void tell(const MpiWork& work) {
    if (!std::exchange(told_, true)) control_.waits(work.waits_for());
  }

 private:
  ControlChannel& control_;
  bool told_ = false;
};

MpiRank::MpiRank(const Parts& parts, const WorldOptions& options,
                 std::shared_ptr<Allocator> host_memory)
    : parts_(parts), options_(options), host_memory_(std::move(host_memory)) {}

MpiRank::~MpiRank() {
  for (const auto& work : pending_) {
    if (!work->is_over()) work->fail(unavailable("the World of this call is gone"));
  }
  advance_all();
  // MPI may still read or write the buffers of calls that failed: they are never released. A
  // process that has not even the room to say so ends here.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  if (!given_up_.empty()) new std::vector(std::move(given_up_));
}

double MpiRank::now_us() const {
  return std::chrono::duration<double, std::micro>(Clock::now() - parts_.start).count();
}

Status MpiRank::as_unavailable() const {
  return unavailable(message_of(parts_.control.first_failure()));
}

void MpiRank::advance_all() {
  for (const auto& work : pending_) work->advance();
  std::erase_if(pending_, [&](const auto& work) {
    if (work->has_failed()) given_up_.push_back(work);
    return work->is_over();
  });
}

Status MpiRank::timed_out(const MpiWork& work) {
  // Whoever is late may itself wait for a rank outside this group, so all are asked.
  const ControlWait wait = work.waits_for();
  ControlWait everyone = wait;
  everyone.parties.resize(static_cast<std::size_t>(std::min(link().size(), kMostAsked)));
  std::iota(everyone.parties.begin(), everyone.parties.end(), 0);
  std::vector<std::int64_t> arrived, missing, silent;
  std::string doing;
  for (const PartyState& state : control().ask(everyone, kAskLimit)) {
    const bool is_party =
        std::find(wait.parties.begin(), wait.parties.end(), state.rank) != wait.parties.end();
    if (state.kind == PartyState::Kind::kSilent) {
      silent.push_back(state.rank);
    } else if (is_party && state.kind == PartyState::Kind::kArrived) {
      arrived.push_back(state.rank);
    } else if (is_party) {
      missing.push_back(state.rank);
      doing += "; rank " + std::to_string(state.rank) + ": " + state.doing;
    }
  }
  std::string text =
      "timed out after " + std::to_string(work.timeout().count()) + " ms in " + work.describe();
  if (missing.empty() && silent.empty()) {
    text += ": all arrived, not all have taken their data";
  } else {
    text += ": arrived: " + list_ranks(arrived) + "; not arrived: " + list_ranks(missing);
    if (!silent.empty()) text += "; no answer (stopped or unreachable): " + list_ranks(silent);
    text += doing;
  }
  return absl::DeadlineExceededError(to_absl(text));
}

// Peers of one step arrive close together: the first polls read no clock, and some go between two
// times that the core is given away, which costs more than they do.
bool MpiRank::is_over_soon(MpiWork& work) {
  constexpr int kRounds = 32, kPolls = 16;
  for (int round = 0; round < kRounds; ++round) {
    for (int poll = 0; poll < kPolls; ++poll) {
      advance_all();
      if (work.is_over()) return true;
    }
    if (parts_.control.failed() || core_.is_wanted()) return false;
    core_.give_away();
  }
  return false;
}

// What the control channel knows against waiting on; OK where it knows nothing.
Status MpiRank::hopeless(const MpiWork& work, const Telling& telling) {
  if (control().failed()) return as_unavailable();
  if (!telling.has_told()) return absl::OkStatus();
  const auto gone = control().missing_for_good(work.waits_for());
  if (!gone) return absl::OkStatus();
  // A rank that fails says so before it leaves: it may have done both just now.
  if (control().failed()) return as_unavailable();
  return failed_precondition("rank " + std::to_string(*gone) + " returned without joining " +
                             work.describe());
}

void MpiRank::wait_until_over(MpiWork& work) {
  if (is_over_soon(work)) return;
  const bool for_ever = work.timeout() < std::chrono::milliseconds::zero();
  const auto begin = Clock::now();
  const auto deadline = for_ever ? Clock::time_point::max() : begin + work.timeout();
  Polling polling(control(), core_);
  Telling telling(control());
  auto verdict_limit = Clock::time_point::max();
  for (std::int64_t progress = 0;;) {
    advance_all();
    if (work.is_over()) return;
    const auto now = Clock::now();
    if (std::exchange(progress, work.progress()) != work.progress()) polling.restart(now);
    if (work.is_comparing() && control().failed() &&
        control().first_failure().code() == absl::StatusCode::kFailedPrecondition) {
      verdict_limit = std::min(verdict_limit, now + kVerdictLimit);
      if (now < verdict_limit) {
        yield_core();
        continue;
      }
    }
    Status failure = hopeless(work, telling);
    if (failure.ok() && now >= deadline) failure = timed_out(work);
    if (failure.ok()) {
      if (now - begin >= kLook) telling.tell(work);
      polling.rest(now);
      continue;
    }
    // Data that are there win.
    advance_all();
    if (work.is_over()) return;
    if (!control().failed()) control().poison(failure);
    work.fail(std::move(failure));
    return;
  }
}

void MpiRank::wait(MpiWork& work) {
  // The list may hold the last handle.
  const auto held = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const auto& other) { return other.get() == &work; });
  const std::shared_ptr<MpiWork> keep = held == pending_.end() ? nullptr : *held;
  wait_until_over(work);
}

void MpiRank::add(const std::shared_ptr<MpiWork>& work) {
  if (pending_.size() >= kMaxPending) wait(*pending_.front());
  has_started_ = true;
  pending_.push_back(work);
  work->begin();
}

void MpiRank::finish_all() {
  while (!pending_.empty()) {
    const std::shared_ptr<MpiWork> first = pending_.front();
    if (first->is_over()) {
      advance_all();
    } else {
      first->wait();
    }
  }
}

// ---- MpiCommunicator

MpiCommunicator::MpiCommunicator(MpiRank& rank, MpiGroup group)
    : rank_(rank), group_(std::move(group)), collectives_{.key = {.group = group_.id}} {
  collectives_.started = &rank_.control().started(collectives_.key);
}

MpiLane& MpiCommunicator::lane_of(const CollectiveCall& call) {
  if (!is_pair(call.kind)) return collectives_;
  const bool sends = call.kind == Kind::kSend;
  const bool oneself = call.root == group_.rank;
  std::pair<int, int> pair =
      sends ? std::pair(group_.rank, call.root) : std::pair(call.root, group_.rank);
  if (oneself && !sends) pair.second = -group_.rank - 1;
  MpiLane& lane = pairs_[pair];
  lane.key = {.group = group_.id, .from = pair.first, .to = pair.second};
  if (lane.started == nullptr && !oneself) lane.started = &rank_.control().started(lane.key);
  return lane;
}

std::shared_ptr<Work> MpiCommunicator::start(CollectiveCall call, const CallInfo& info) {
  if (rank_.control().failed()) throw Error(rank_.as_unavailable());
  const GroupPlace place{group_.rank, size()};
  throw_if_error(prepare(call, place));
  wait_ready(call);

  MpiLane& lane = lane_of(call);
  const Traffic traffic = traffic_of(call, place);
  auto work = std::make_shared<MpiWork>(rank_, group_);
  MpiWork::Start& start = work->start();
  start.bytes_received = traffic.received;
  start.event = make_event(call, info, traffic);
  if (start.event) {
    start.event->module = rank_.log().module();
    if (rank_.log().is_tracing()) {
      start.event->trace = trace_of(call, {place, group_.ranks, lane.next});
    }
    start.event->start_us = rank_.now_us();
  }
  start.signature = make_signature(call, info, lane.next++);
  if (lane.started != nullptr) lane.started->store(lane.next, std::memory_order_release);
  start.lane = lane.key;
  start.timeout = info.timeout.count() == 0 ? rank_.options().timeout : info.timeout;
  start.call = std::move(call);
  rank_.add(work);
  return work;
}

}  // namespace tessera
