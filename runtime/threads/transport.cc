#include "runtime/threads/transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/threads/device_transfer.h"
#include "runtime/threads/host_transfer.h"

namespace tessera {
namespace {

using Clock = ThreadsHub::Clock;

// A parked rank looks this often whether anyone can still go on.
constexpr std::chrono::milliseconds kLook{100};

/// A round that a call belongs to, and this rank's place in it.
struct RoundPlace {
  std::shared_ptr<ThreadsRound> round;
  int party = 0;
};

class ThreadsCall final : public PendingCall {
 public:
  ThreadsCall(ThreadsTransport& transport, RoundPlace place, const GroupPlace& group,
              CollectiveCall&& call, Signature&& signature)
      : PendingCall(std::move(call)),
        transport_(transport),
        place_(std::move(place)),
        group_(group) {
    post().signature = std::move(signature);
  }

  const Signature& signature() const noexcept override {
    return place_.round->post(place_.party).signature;
  }
  ThreadsRound& round() noexcept { return *place_.round; }

 private:
  bool begin() override;
  bool advance() override;
  /// The arrays stay with the round: peers may still be reading.
  void abandon() noexcept override {
    post().call = nullptr;
    post().left = std::move(call());
  }
  void move_data();
  ThreadsPost& post() noexcept { return place_.round->post(place_.party); }

  ThreadsTransport& transport_;
  RoundPlace place_;
  GroupPlace group_;
  bool has_moved_ = false;
};

bool ThreadsCall::begin() {
  post().call = &call();
  if (Device& device = device_of(call()); &device != &cpu_device()) {
    post().device = &device;
    publish_on_device(post(), group_);
  } else {
    publish_data(post(), group_);
  }
  if (round().arrive(place_.party)) transport_.notify_others(round());
  return false;
}

bool ThreadsCall::advance() {
  if (!has_moved_) {
    if (!round().is_ready()) return false;
    throw_if_error(round().verdict());  // everyone in the group sees the same
    move_data();
  }
  if (post().read_by_others && !round().is_done()) return false;
  if (post().device != nullptr) finish_on_device(round(), place_.party);
  post().call = nullptr;
  return true;
}

void ThreadsCall::move_data() {
  note_match();
  if (post().device != nullptr) {
    transfer_on_device(round(), place_.party);
  } else {
    transfer(round(), place_.party, transport_.threads());
  }
  has_moved_ = true;
  const bool last = round().leave();
  if (last && round().is_awaited()) transport_.notify_others(round());
}

class ThreadsGroupEnd final : public TransportGroup {
 public:
  ThreadsGroupEnd(ThreadsTransport& transport, std::shared_ptr<ThreadsGroup> group, int rank)
      : transport_(transport), group_(std::move(group)), rank_(rank) {}

  bool reaches_peers() const noexcept override { return true; }
  std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) override {
    const GroupPlace place{rank_, static_cast<int>(group_->ranks().size())};
    RoundPlace round = join(signature);
    return std::make_shared<ThreadsCall>(transport_, std::move(round), place, std::move(call),
                                         std::move(signature));
  }

 private:
  RoundPlace join(const Signature& call) {
    const bool sends = call.kind == CollectiveCall::Kind::kSend;
    if (!sends && call.kind != CollectiveCall::Kind::kRecv) {
      return {group_->collectives().join(call.sequence), rank_};
    }
    ThreadsLane*& lane = (sends ? to_ : from_)[call.root];
    if (lane == nullptr) {
      lane = &(sends ? group_->channel(rank_, call.root) : group_->channel(call.root, rank_));
    }
    return {lane->join(call.sequence), sends ? 0 : 1};
  }

  ThreadsTransport& transport_;
  std::shared_ptr<ThreadsGroup> group_;
  int rank_;
  std::map<int, ThreadsLane*> to_, from_;  ///< by peer
};

ThreadsRound& round_of(PendingCall& call) { return static_cast<ThreadsCall&>(call).round(); }

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

bool ThreadsPolling::again() {
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

double ThreadsTransport::now_us() const {
  return std::chrono::duration<double, std::micro>(Clock::now() - hub_->start()).count();
}

StatusOr<std::unique_ptr<TransportGroup>> ThreadsTransport::open_group(const CallGroup& group) {
  return std::make_unique<ThreadsGroupEnd>(*this, hub_->group(group.ranks), group.rank);
}

void ThreadsTransport::notify_others(ThreadsRound& round) {
  for (const std::int64_t party : round.parties()) {
    if (party != own_.rank) hub_->notify(party);
  }
}

void ThreadsTransport::begin_wait(PendingCall&) {
  polling_.restart(hub_->may_spin());
  described_ = false;
}

Status ThreadsTransport::why_in_vain(PendingCall& call) {
  if (hub_->failed()) return hub_->as_unavailable();
  if (const auto gone = hub_->missing_for_good(round_of(call))) {
    // A rank that fails says so before it leaves: it may have done both just now.
    if (hub_->failed()) return hub_->as_unavailable();
    return failed_precondition("rank " + std::to_string(*gone) + " returned without joining " +
                               stand_of(call));
  }
  return absl::OkStatus();
}

Status ThreadsTransport::rest(PendingCall& call, Clock::time_point limit) {
  if (hub_->park(own_.rank, seen_, std::min(limit, Clock::now() + kLook))) return absl::OkStatus();
  if (!std::exchange(described_, true)) hub_->describe_wait(own_.rank, stand_of(call));
  return deadlocked();
}

Status ThreadsTransport::deadlocked() {
  ThreadsHub::View view = hub_->all_parked();
  const bool stuck = !view.empty() && view == last_view_;
  last_view_ = std::move(view);
  return stuck ? failed_precondition(hub_->describe_all()) : absl::OkStatus();
}

std::string ThreadsTransport::stand_of(PendingCall& call) {
  ThreadsRound& round = round_of(call);
  std::string text = to_string(call.signature());
  if (round.is_ready()) return text + ": all arrived, not all have taken their data";
  std::vector<std::int64_t> arrived, missing;
  for (int i = 0; i < round.size(); ++i) {
    const bool here = round.post(i).arrived.load(std::memory_order_acquire);
    (here ? arrived : missing).push_back(round.parties()[static_cast<std::size_t>(i)]);
  }
  return text + ": arrived: " + list_ranks(arrived) + "; not arrived: " + list_ranks(missing);
}

}  // namespace tessera
