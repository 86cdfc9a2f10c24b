#include "runtime/control/hub.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace tessera {

ControlHub::Letters ControlHub::receive(std::int64_t from, const control::Message& message,
                                        Time now) {
  Letters out;
  if (!has_place(from)) return out;
  if (const auto* poison = std::get_if<control::Poison>(&message)) {
    fail(Status(static_cast<absl::StatusCode>(poison->code), to_absl(poison->text)), out);
    out.push_back({kEveryone, control::Gone{from, control::End::kFailed, {}}});
  } else if (const auto* asked = std::get_if<control::GroupAsked>(&message)) {
    const auto next = static_cast<std::uint32_t>(groups_.size() + 1);
    const std::uint32_t id = groups_.try_emplace(asked->ranks, next).first->second;
    out.push_back({from, control::GroupNumber{asked->request, id}});
  } else if (const auto* waiting = std::get_if<control::Waiting>(&message)) {
    if (place(from).state == State::kGone) return out;
    place(from) = {.state = State::kWaiting, .waiting = *waiting, .started = waiting->started};
    look_again(now);
  } else if (std::holds_alternative<control::Running>(message)) {
    if (place(from).state == State::kGone) return out;
    place(from).state = State::kRunning;
    look_again(now);
  } else if (const auto* leave = std::get_if<control::Leave>(&message)) {
    if (place(from).state == State::kGone) return out;
    end(from, control::End::kLeft, leave->started, out);
    look_again(now);
  } else if (const auto* reply = std::get_if<control::ProbeReply>(&message)) {
    answer_probe(from, *reply, out);
  }
  return out;
}

ControlHub::Letters ControlHub::lost(std::int64_t rank, const std::string& how, Time now) {
  Letters out;
  if (!has_place(rank) || place(rank).state == State::kGone) return out;
  fail(unavailable("rank " + std::to_string(rank) + " " + how), out);
  end(rank, control::End::kDied, place(rank).started, out);
  look_again(now);
  return out;
}

void ControlHub::fail(const Status& status, Letters& out) {
  if (std::exchange(failed_, true)) return;
  out.push_back({kEveryone, control::Failure{static_cast<std::int32_t>(status.code()),
                                             std::string(message_of(status))}});
}

void ControlHub::end(std::int64_t rank, control::End end, StartedCounts started, Letters& out) {
  place(rank).state = State::kGone;
  place(rank).started = started;
  out.push_back({kEveryone, control::Gone{rank, end, std::move(started)}});
}

// ---- deadlock

// Every rank says when it waits, with what it has started; none starts anything while it waits. If
// each waiting rank's call lacks a party, and all parties wait or have left, no call can ever
// complete. What was said may be stale, so all are asked again: a rank that is still in the wait
// that it spoke of has been in it all the while, hence all were at the moment of the question. A
// process that is stopped answers nothing, and nothing is judged.

void ControlHub::look_again(Time now) {
  asked_.reset();
  judge_at_.reset();
  if (!failed_ && all_stuck()) judge_at_ = now + kGrace;
}

bool ControlHub::all_stuck() const {
  bool any_waits = false;
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    const State state = place(rank).state;
    if (state == State::kRunning) return false;
    if (state == State::kGone) continue;
    if (!lacks_a_party(rank)) return false;
    any_waits = true;
  }
  return any_waits;
}

bool ControlHub::lacks_a_party(std::int64_t rank) const {
  const ControlWait& wait = place(rank).waiting.wait;
  return std::any_of(wait.parties.begin(), wait.parties.end(), [&](std::int64_t party) {
    return party != rank && has_place(party) && !has_started(place(party).started, wait);
  });
}

ControlHub::Letters ControlHub::tick(Time now) {
  Letters out;
  if (!judge_at_ || now < *judge_at_) return out;
  judge_at_.reset();
  ++epoch_;
  asked_ = 0;
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    if (place(rank).state != State::kWaiting) continue;
    place(rank).probe_answered = false;
    ++*asked_;
    out.push_back({rank, control::Probe{epoch_}});
  }
  return out;
}

void ControlHub::answer_probe(std::int64_t from, const control::ProbeReply& reply, Letters& out) {
  Place& at = place(from);
  if (!asked_ || reply.epoch != epoch_ || at.probe_answered) return;
  if (reply.number != at.waiting.number) {  // it has moved on, and says so itself
    asked_.reset();
    return;
  }
  at.started = reply.started;
  at.probe_answered = true;
  if (--*asked_ > 0) return;
  asked_.reset();
  if (all_stuck()) fail(failed_precondition(describe_all()), out);
}

std::string ControlHub::describe_all() const {
  std::string text = "no rank can go on:";
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    const Place& at = place(rank);
    text += (rank == 0 ? " rank " : "; rank ") + std::to_string(rank);
    text += at.state == State::kGone ? " has returned" : " waits in " + at.waiting.wait.text;
  }
  return text;
}

}  // namespace tessera
