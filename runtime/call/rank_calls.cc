#include "runtime/call/rank_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/call/flows.h"
#include "runtime/call/prepared_call.h"

namespace tessera {

using Kind = CollectiveCall::Kind;

// ---- PendingCall

void PendingCall::wait() {
  if (!is_over()) calls_->wait(*this);
  if (has_failed()) throw Error(status_);
}

void PendingCall::note_match() noexcept {
  if (FlightRecorder* recorder = calls_->recorder()) recorder->matched(ticket_);
}

template <class Part>
void PendingCall::guarded(Part&& part) {
  try {
    if (part()) finish();
  } catch (const Error& error) {
    calls_->transport().poison(error.status());
    fail(error.status());
  }
}

void PendingCall::open(RankCalls& calls, std::uint32_t recorded_group) {
  calls_ = &calls;
  if (FlightRecorder* recorder = calls.recorder()) {
    ticket_ = recorder->started(signature(), recorded_group);
  }
  guarded([&] { return begin(); });
}

void PendingCall::go_on() {
  if (!is_over()) guarded([&] { return advance(); });
}

void PendingCall::finish() {
  phase_ = Phase::kFinished;
  mark_written(call_);
  // The arrays may go, so that no storage waits on a work that holds it.
  call_.of = BarrierCall{};
  if (FlightRecorder* recorder = calls_->recorder()) recorder->finished(ticket_);
  if (event_) {
    event_->end_us = calls_->transport().now_us();
    calls_->log().add(*std::move(event_));
    event_.reset();
  }
  calls_ = nullptr;
}

void PendingCall::fail(Status status) {
  phase_ = Phase::kFailed;
  status_ = std::move(status);
  abandon();
  if (FlightRecorder* recorder = calls_->recorder()) recorder->failed(ticket_);
  calls_ = nullptr;
}

// ---- RankCalls

RankCalls::~RankCalls() {
  for (const auto& call : pending_) {
    if (!call->is_over()) call->fail(unavailable("the World of this call is gone"));
  }
  advance_all();
}

void RankCalls::advance_all() {
  for (const auto& call : pending_) call->go_on();
  std::erase_if(pending_, [&](const auto& call) {
    if (call->has_failed()) transport().keep(call);
    return call->is_over();
  });
}

void RankCalls::wait_until_over(PendingCall& call) {
  using Clock = Transport::Clock;
  const bool for_ever = call.timeout() < std::chrono::milliseconds::zero();
  const auto deadline = for_ever ? Clock::time_point::max() : Clock::now() + call.timeout();
  for (;;) {
    transport().look();
    advance_all();
    if (call.is_over()) return;
    Status failure = transport().why_in_vain(call);
    if (failure.ok() && transport().polls(call)) continue;
    if (failure.ok() && Clock::now() >= deadline) {
      failure = absl::DeadlineExceededError(to_absl("timed out after " +
                                                    std::to_string(call.timeout().count()) +
                                                    " ms in " + transport().stand_of(call)));
    }
    if (failure.ok()) failure = transport().rest(call, deadline);
    if (failure.ok()) continue;
    // Others may have gone on since this was found out: data that are there win.
    advance_all();
    if (call.is_over()) return;
    if (!transport().failed()) transport().poison(failure);
    call.fail(std::move(failure));
    advance_all();
    return;
  }
}

void RankCalls::wait(PendingCall& call) {
  // The list may hold the last handle.
  const auto held = std::find_if(pending_.begin(), pending_.end(),
                                 [&](const auto& other) { return other.get() == &call; });
  const std::shared_ptr<PendingCall> keep = held == pending_.end() ? nullptr : *held;
  transport().begin_wait(call);
  wait_until_over(call);
  transport().end_wait();
}

void RankCalls::add(const std::shared_ptr<PendingCall>& call, std::uint32_t recorded_group) {
  if (pending_.size() >= transport().most_pending()) wait(*pending_.front());
  has_begun_ = true;
  pending_.push_back(call);
  call->open(*this, recorded_group);
}

void RankCalls::finish_all() {
  while (!pending_.empty()) {
    const std::shared_ptr<PendingCall> first = pending_.front();
    if (first->is_over()) {
      advance_all();
    } else {
      first->wait();
    }
  }
}

// ---- GroupCommunicator

StatusOr<std::unique_ptr<GroupCommunicator>> GroupCommunicator::make(RankCalls& calls,
                                                                     CallGroup group) {
  std::unique_ptr<GroupCommunicator> made(new GroupCommunicator(calls, std::move(group)));
  TSR_ASSIGN_OR_RETURN(made->on_transport_, calls.transport().open_group(made->group_));
  if (FlightRecorder* recorder = calls.recorder()) {
    made->recorded_group_ = recorder->add_group(made->group_.ranks);
  }
  return made;
}

std::uint64_t& GroupCommunicator::next_in_lane(const CollectiveCall& call) {
  if (call.kind() == Kind::kSend) return next_to_[call.root()];
  if (call.kind() == Kind::kRecv) return next_from_[call.root()];
  return next_collective_;
}

std::shared_ptr<Work> GroupCommunicator::start(CollectiveCall call, const CallInfo& info) {
  Transport& transport = calls_.transport();
  if (transport.failed()) throw Error(transport.failure());
  const GroupPlace place = group_.place();
  throw_if_error(prepare(call, place));
  if (call.kind() == Kind::kPeerRows && !reaches_peers()) {
    const std::string why = why_unreached();
    throw Error(unimplemented("peer_rows: this backend's ranks " + to_string(group_.ranks) +
                              " do not reach each other's memory" +
                              (why.empty() ? "" : ": " + why)));
  }
  throw_if_error(transport.check(call));
  wait_ready(call);

  std::uint64_t& next = next_in_lane(call);
  const Traffic traffic = traffic_of(call, place);
  std::optional<Event> event = make_event(call, info, traffic);
  if (event) {
    event->module = calls_.log().module();
    if (calls_.log().is_tracing()) event->trace = trace_of(call, {place, group_.ranks, next});
    event->start_us = transport.now_us();
  }
  Signature signature = make_signature(call, info, next++);
  std::shared_ptr<PendingCall> pending =
      on_transport_->make_call(std::move(call), std::move(signature));
  pending->bytes_received_ = traffic.received;
  pending->timeout_ = info.timeout.count() == 0 ? calls_.timeout() : info.timeout;
  pending->event_ = std::move(event);
  calls_.add(pending, recorded_group_);
  return pending;
}

}  // namespace tessera
