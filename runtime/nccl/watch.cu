// The thread beside a rank that looks at its communicators: see Watch in transport.h.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "runtime/nccl/captured_calls.h"
#include "runtime/nccl/transport.h"

namespace tessera::nccl::TSR_CUDA {
namespace {

// How long a stuck or a failed communicator goes unseen.
constexpr std::chrono::milliseconds kLook{10};
constexpr std::chrono::milliseconds kMoment{1};
// Of a call past its time, about those who may be stopped.
constexpr std::chrono::milliseconds kAskLimit{250};
constexpr std::int64_t kMostAsked = 512;

}  // namespace

Watch::~Watch() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
  for (auto& [link, abort] : aborts_) abort.join();
}

void Watch::add(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.insert(&link);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

// What a peer that fails leaves waiting would else keep the communicator's end waiting too.
void Watch::remove(Link& link) {
  try {
    while (!control_.failed() && !link.is_done()) std::this_thread::sleep_for(kMoment);
  } catch (const Error& error) {  // the device's
    control_.poison(error.status());
  }
  std::thread abort;
  {
    const std::lock_guard lock(mutex_);
    links_.erase(&link);
    if (auto under_way = aborts_.extract(&link)) abort = std::move(under_way.mapped());
  }
  if (abort.joinable()) {
    abort.join();
  } else if (control_.failed()) {
    link.abort();
  }
}

void Watch::add(CapturedCalls& calls) {
  const std::lock_guard lock(mutex_);
  captured_.insert(&calls);
}

void Watch::remove(CapturedCalls& calls) {
  const std::lock_guard lock(mutex_);
  captured_.erase(&calls);
}

// All at once: where the work of one communicator comes after that of another, its end waits for
// the other's. Nobody waits for them here: see Link::abort().
void Watch::abort_all() {
  for (Link* link : links_) {
    if (!aborts_.contains(link)) aborts_.emplace(link, [link] { link->abort(); });
  }
}

Status Watch::look() try {
  Status wrong;
  std::string replay;
  for (CapturedCalls* calls : captured_) {
    wrong.Update(calls->look());
    if (replay.empty()) replay = calls->in_flight();
  }
  for (Link* link : links_) wrong.Update(link->look(replay));
  return wrong;
} catch (const Error& error) {  // a card that has failed says so to whoever asks
  return error.status();
}

Status Watch::with_silent_ranks(const Status& wrong) {
  if (!absl::IsDeadlineExceeded(wrong)) return wrong;
  ControlWait everyone;
  everyone.parties.resize(static_cast<std::size_t>(std::min(num_ranks_, kMostAsked)));
  std::iota(everyone.parties.begin(), everyone.parties.end(), 0);
  std::vector<std::int64_t> silent;
  for (const PartyState& state : control_.ask(everyone, kAskLimit)) {
    if (state.kind == PartyState::Kind::kSilent) silent.push_back(state.rank);
  }
  if (silent.empty()) return wrong;
  return absl::DeadlineExceededError(
      to_absl(std::string(message_of(wrong)) +
              "; no answer (stopped or unreachable): " + list_ranks(silent)));
}

void Watch::run() {
  while (!ends_) {
    std::this_thread::sleep_for(kLook);
    Status wrong;
    {
      const std::lock_guard lock(mutex_);
      if (control_.failed()) {
        abort_all();
      } else {
        wrong.Update(look());
      }
    }
    if (!wrong.ok() && !control_.failed()) control_.poison(with_silent_ranks(wrong));
  }
}

}  // namespace tessera::nccl::TSR_CUDA
