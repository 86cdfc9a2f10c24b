#include "runtime/control/state.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/rank_text.h"

namespace tessera {

Status status_of(std::int32_t code, const std::string& text) {
  const bool is_error =
      code > 0 && code <= static_cast<std::int32_t>(absl::StatusCode::kUnauthenticated);
  return Status(is_error ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                to_absl(text));
}

ControlState::ControlState(ControlPlace place, WakeUp wake_up)
    : place_(place), wake_up_(std::move(wake_up)), others_(static_cast<std::size_t>(place.size)) {}

// ---- what is known

Status ControlState::first_failure() const {
  const std::lock_guard lock(mutex_);
  return verdict_.ok() ? stand_in_ : verdict_;
}

std::optional<std::int64_t> ControlState::missing_for_good(const ControlWait& wait) const {
  const std::lock_guard lock(mutex_);
  for (const std::int64_t party : wait.parties) {
    if (party == place_.rank || !has_place(party)) continue;
    const std::optional<StartedCounts>& last = other(party).left;
    if (last && !has_started(*last, wait)) return party;
  }
  return std::nullopt;
}

std::atomic<std::uint64_t>& ControlState::started(const LaneKey& lane) {
  const std::lock_guard lock(mutex_);
  return started_[lane];
}

std::optional<PartyState> ControlState::state_of_left(std::int64_t rank,
                                                      const ControlWait& wait) const {
  const std::lock_guard lock(mutex_);
  if (!has_place(rank) || !other(rank).left) return std::nullopt;
  const bool arrived = has_started(*other(rank).left, wait);
  return PartyState{.rank = rank,
                    .kind = arrived ? PartyState::Kind::kArrived : PartyState::Kind::kNotArrived,
                    .doing = "has returned"};
}

bool ControlState::is_hub_gone() const {
  const std::lock_guard lock(mutex_);
  return hub_gone_;
}

std::vector<std::int64_t> ControlState::those_still_here() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::int64_t> ranks;
  for (std::int64_t rank = 0; rank < place_.size; ++rank) {
    if (rank != place_.rank && !other(rank).ended) ranks.push_back(rank);
  }
  return ranks;
}

StartedCounts ControlState::counts() const {
  StartedCounts counts;
  for (const auto& [lane, count] : started_) {
    counts.emplace_hint(counts.end(), lane, count.load(std::memory_order_acquire));
  }
  return counts;
}

// ---- what the rank says

void ControlState::say_now(control::Message message) {
  said_.push_back(std::move(message));
  wake_up_.wake();
}

void ControlState::say(control::Message message) {
  const std::lock_guard lock(mutex_);
  say_now(std::move(message));
}

void ControlState::waits(ControlWait wait) {
  const std::lock_guard lock(mutex_);
  if (other(place_.rank).left) return;
  if (wait_ && wait_->lane == wait.lane && wait_->sequence == wait.sequence) return;
  wait_ = std::move(wait);
  say_now(control::Waiting{++num_waits_, *wait_, counts()});
}

void ControlState::stops_waiting() {
  const std::lock_guard lock(mutex_);
  if (!wait_) return;
  wait_.reset();
  say_now(control::Running{});
}

void ControlState::leave() {
  const std::lock_guard lock(mutex_);
  Other& own = other(place_.rank);
  if (own.left) return;
  wait_.reset();
  own.left = counts();
  own.ended = true;
  say_now(control::Leave{*own.left});
  tell();
}

control::Poison ControlState::fail(const Status& status) {
  const std::lock_guard lock(mutex_);
  // What this rank has heard of came before, and keeps its own code.
  if (stand_in_.ok()) stand_in_ = verdict_;
  if (stand_in_.ok()) {
    stand_in_ = Status(status.code(), to_absl(told_by(place_.rank, message_of(status))));
  }
  const control::Poison poison{static_cast<std::int32_t>(stand_in_.code()),
                               std::string(message_of(stand_in_))};
  failed_.store(true, std::memory_order_release);
  tell();
  say_now(poison);
  return poison;
}

std::vector<control::Message> ControlState::take_said() {
  const std::lock_guard lock(mutex_);
  return std::exchange(said_, {});
}

// ---- waiting

void ControlState::sleep(std::chrono::microseconds limit) {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, limit, [&] { return news_ != seen_news_; });
  seen_news_ = news_;
}

bool ControlState::wait_for_verdict(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return heard_.wait_for(lock, limit, [&] { return !verdict_.ok() || hub_gone_; }) &&
         !verdict_.ok();
}

bool ControlState::all_ended() const {
  return std::all_of(others_.begin(), others_.end(), [](const Other& at) { return at.ended; });
}

bool ControlState::wait_until_all_left(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, limit, [&] { return all_ended() || hub_gone_; });
  // Without the hub nobody tells who leaves any more.
  return all_ended() || hub_gone_;
}

bool ControlState::wait_until_all_ended(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return heard_.wait_for(lock, limit, [&] { return all_ended(); });
}

StatusOr<std::uint32_t> ControlState::wait_for_group(std::uint64_t request,
                                                     std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  heard_.wait_for(lock, limit,
                  [&] { return group_numbers_.contains(request) || failed() || hub_gone_; });
  const auto answer = group_numbers_.extract(request);
  if (failed()) return verdict_.ok() ? stand_in_ : verdict_;
  if (!answer.empty()) return answer.mapped();
  return unavailable(hub_gone_ ? "rank 0 has left" : "rank 0 does not answer");
}

// ---- what is heard

void ControlState::tell() {
  ++news_;
  heard_.notify_all();
}

void ControlState::judge(const Status& verdict) {
  if (!verdict_.ok()) return;
  verdict_ = verdict;
  failed_.store(true, std::memory_order_release);
  tell();
}

void ControlState::note_end(const control::Gone& gone) {
  // A rank that has failed may still be telling its caller so: it ends when it leaves.
  if (!has_place(gone.rank) || gone.end == control::End::kFailed) return;
  other(gone.rank).ended = true;
  if (gone.end == control::End::kLeft) other(gone.rank).left = gone.started;
  tell();
}

void ControlState::hear(const control::Message& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* failure = std::get_if<control::Failure>(&message)) {
    judge(status_of(failure->code, failure->text));
  } else if (const auto* gone = std::get_if<control::Gone>(&message)) {
    note_end(*gone);
  } else if (const auto* number = std::get_if<control::GroupNumber>(&message)) {
    group_numbers_[number->request] = number->id;
    heard_.notify_all();
  }
}

void ControlState::hear_directly(const control::Poison& poison) {
  const std::lock_guard lock(mutex_);
  if (stand_in_.ok()) stand_in_ = status_of(poison.code, poison.text);
  failed_.store(true, std::memory_order_release);
  tell();
}

void ControlState::lose_hub() {
  {
    const std::lock_guard lock(mutex_);
    if (other(0).left) {
      hub_gone_ = true;
      return tell();
    }
  }
  const std::string how = describe_death(0);
  const std::lock_guard lock(mutex_);
  hub_gone_ = true;
  other(0).ended = true;
  judge(unavailable("rank 0 " + how));
  tell();
}

void ControlState::set_describe_dead(Describe describe) {
  const std::lock_guard lock(mutex_);
  describe_dead_ = std::move(describe);
}

std::string ControlState::describe_death(std::int64_t rank) const {
  Describe describe;
  {
    const std::lock_guard lock(mutex_);
    describe = describe_dead_;
  }
  std::string doing;
  try {
    if (describe) doing = describe(rank);
  } catch (const std::exception&) {
    doing.clear();  // a death is told even where its record cannot be read
  }
  return doing.empty() ? "died" : "died in " + doing;
}

control::Answer ControlState::answer(const control::Query& query) const {
  const std::lock_guard lock(mutex_);
  const auto at = started_.find(query.lane);
  const bool arrived =
      at != started_.end() && at->second.load(std::memory_order_acquire) > query.sequence;
  if (other(place_.rank).left) return {arrived, "has returned"};
  return {arrived, wait_ ? wait_->text : "runs"};
}

control::Message ControlState::own_farewell() const {
  const std::lock_guard lock(mutex_);
  const std::optional<StartedCounts>& left = other(place_.rank).left;
  if (!left) return control::Welcome{};
  return control::Leave{*left};
}

control::Message ControlState::hear_farewell(std::int64_t rank, const control::Leave& leave) {
  hear(control::Gone{rank, control::End::kLeft, leave.started});
  return own_farewell();
}

control::ProbeReply ControlState::answer(const control::Probe& probe) const {
  const std::lock_guard lock(mutex_);
  return {.epoch = probe.epoch, .number = wait_ ? num_waits_ : 0, .started = counts()};
}

void ControlState::close() {
  closing_.store(true, std::memory_order_release);
  wake_up_.wake();
}

}  // namespace tessera
