#include "runtime/control/process_transport.h"

#include <algorithm>
#include <numeric>

#include "runtime/call/signature_wire.h"
#include "runtime/environment.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// A rank that waits this long tells the control channel for what.
constexpr std::chrono::milliseconds kLook{50};
// So many ranks are asked where they stand; each costs a connection.
constexpr std::int64_t kMostAsked = 512;
// Time that a rank which timed out gives its peers to say where they stand.
constexpr std::chrono::milliseconds kAskLimit{300};
// Time to see a mismatch oneself once a peer has: its signature is on the way.
constexpr std::chrono::milliseconds kVerdictLimit{300};
// Some of the first polls go between two times that the core is given away, which costs more than
// they do.
constexpr int kPollsPerYield = 16;
constexpr int kPolls = 32 * kPollsPerYield;
// Then the core is given away at each poll for so long after something came, …
constexpr std::chrono::milliseconds kYields{2};
// … and then come sleeps.
constexpr std::chrono::microseconds kFirstPause{20};
constexpr std::chrono::microseconds kLongestPause{500};
// After a failure, so long for the others, who may be computing, to come to a call and hear of it.
constexpr std::chrono::milliseconds kFarewell{10'000};

}  // namespace

// ---- ProcessGroup

ProcessGroup::ProcessGroup(ControlChannel& control, const CallGroup& ranks, std::uint32_t id)
    : control_(control), ranks_(ranks), id_(id), collectives_{.key = {.group = id}} {
  collectives_.started = &control.started(collectives_.key);
}

const ProcessLane& ProcessGroup::lane_of(const Signature& call) {
  if (!is_message(call.kind)) return collectives_;
  const std::pair<int, int> pair = call.kind == Kind::kSend ? std::pair(ranks_.rank, call.root)
                                                            : std::pair(call.root, ranks_.rank);
  ProcessLane& lane = pairs_[pair];
  lane.key = {.group = id_, .from = pair.first, .to = pair.second};
  const bool oneself = call.root == ranks_.rank;
  if (lane.started == nullptr && !oneself) lane.started = &control_.started(lane.key);
  return lane;
}

// ---- ProcessCall

ProcessCall::ProcessCall(ProcessGroup& group, CollectiveCall&& call, Signature&& signature)
    : PendingCall(std::move(call)),
      group_(group),
      lane_(group.lane_of(signature)),
      signature_(std::move(signature)) {}

bool ProcessCall::begin() {
  if (lane_.started != nullptr) {
    lane_.started->store(signature_.sequence + 1, std::memory_order_release);
  }
  return post();
}

std::vector<std::int64_t> ProcessCall::parties() const {
  const CallGroup& ranks = group_.ranks();
  if (!is_message(signature_.kind)) return ranks.ranks;
  const std::int64_t self = ranks.world_rank(ranks.rank), peer = ranks.world_rank(signature_.root);
  return signature_.kind == Kind::kSend ? std::vector{self, peer} : std::vector{peer, self};
}

void ProcessCall::compare_with(std::span<const std::string> theirs, std::set<std::string>& files) {
  std::vector<Signature> peers;
  for (const std::string& bytes : theirs) {
    peers.push_back(value_or_throw(read_signature(bytes, files)));
  }
  std::vector<const Signature*> calls;
  for (const Signature& each : peers) calls.push_back(&each);
  int own = group_.ranks().rank;
  if (is_message(signature_.kind)) own = signature_.kind == Kind::kSend ? 0 : 1;
  calls.insert(calls.begin() + own, &signature_);
  throw_if_error(compare_calls(calls, parties()));
}

ControlWait ProcessCall::waits_for() const {
  return {.lane = lane_.key,
          .sequence = signature_.sequence,
          .parties = parties(),
          .text = to_string(signature_) + " [group of ranks " +
                  to_string(ShapeView(group_.ranks().ranks)) + "]"};
}

// ---- ProcessTransport

ProcessTransport::~ProcessTransport() {
  // A process that has not even the room to say so ends here.
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
  if (!given_up_.empty()) new std::vector(std::move(given_up_));
}

Status ProcessTransport::leave(const std::function<void()>& end) {
  const bool told = failed();
  if (told) end();
  control_->leave();
  // Rank 0's end serves the others until the last has gone.
  while (!failed() && !control_->wait_until_all_left(std::chrono::minutes(1))) {
  }
  if (!told) end();
  if (failed()) control_->farewell(kFarewell);
  return control_->first_failure();
}

Status ProcessTransport::failure() const {
  return unavailable(message_of(control_->first_failure()));
}

StatusOr<std::uint32_t> ProcessTransport::id_of(const CallGroup& group) {
  StatusOr<std::uint32_t> id = control_->group_id(group.ranks);
  if (!id.ok() && failed()) return failure();
  return id;
}

void ProcessTransport::begin_wait(PendingCall& call) {
  wait_ = {.polls_left = kPolls};
  static_cast<ProcessCall&>(call).note_wait();
}

void ProcessTransport::end_wait() noexcept {
  if (wait_.told) control_->stops_waiting();
}

Status ProcessTransport::why_in_vain(PendingCall& call) {
  if (failed()) {
    wait_.polls_left = 0;
    wait_.awaits_verdict =
        static_cast<ProcessCall&>(call).is_comparing() &&
        control_->first_failure().code() == absl::StatusCode::kFailedPrecondition;
    if (!wait_.awaits_verdict) return failure();
    const Clock::time_point now = Clock::now();
    wait_.verdict_limit = std::min(wait_.verdict_limit, now + kVerdictLimit);
    return now < wait_.verdict_limit ? absl::OkStatus() : failure();
  }
  if (!wait_.told) return absl::OkStatus();
  const auto gone = control_->missing_for_good(static_cast<ProcessCall&>(call).waits_for());
  if (!gone) return absl::OkStatus();
  // A rank that fails says so before it leaves: it may have done both just now.
  if (failed()) return failure();
  return failed_precondition("rank " + std::to_string(*gone) + " returned without joining " +
                             to_string(call.signature()));
}

bool ProcessTransport::polls(PendingCall&) {
  if (wait_.awaits_verdict) {
    yield_core();
    return true;
  }
  if (wait_.polls_left == 0) return false;
  if (--wait_.polls_left % kPollsPerYield != 0) return true;
  if (core_.is_wanted()) wait_.polls_left = 0;
  if (wait_.polls_left > 0) core_.give_away();
  return wait_.polls_left > 0;
}

void ProcessTransport::restart_yields(Clock::time_point now) {
  wait_.yields_until = now + kYields;
  wait_.pause = kFirstPause;
}

Status ProcessTransport::rest(PendingCall& waited, Clock::time_point) {
  const auto& call = static_cast<const ProcessCall&>(waited);
  const Clock::time_point now = Clock::now();
  if (wait_.rests_since == Clock::time_point{}) {
    wait_.rests_since = now;
    restart_yields(now);
  }
  // More may be close behind what has come.
  if (std::exchange(wait_.progress, call.progress()) != call.progress()) restart_yields(now);
  if (now - wait_.rests_since >= kLook && !std::exchange(wait_.told, true)) {
    control_->waits(call.waits_for());
  }
  if (now < wait_.yields_until && !core_.is_wanted()) {
    core_.give_away();
    return absl::OkStatus();
  }
  control_->sleep(wait_.pause);
  wait_.pause = std::min(wait_.pause * 3 / 2, kLongestPause);
  return absl::OkStatus();
}

std::string ProcessTransport::stand_of(PendingCall& call) {
  // Whoever is late may itself wait for a rank outside this group, so all are asked.
  const ControlWait wait = static_cast<ProcessCall&>(call).waits_for();
  ControlWait everyone = wait;
  everyone.parties.resize(static_cast<std::size_t>(std::min(size(), kMostAsked)));
  std::iota(everyone.parties.begin(), everyone.parties.end(), 0);
  std::vector<std::int64_t> arrived, missing, silent;
  std::string doing;
  for (const PartyState& state : control_->ask(everyone, kAskLimit)) {
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
  std::string text = to_string(call.signature());
  if (missing.empty() && silent.empty()) {
    return text + ": all arrived, not all have taken their data";
  }
  text += ": arrived: " + list_ranks(arrived) + "; not arrived: " + list_ranks(missing);
  if (!silent.empty()) text += "; no answer (stopped or unreachable): " + list_ranks(silent);
  return text + doing;
}

}  // namespace tessera
