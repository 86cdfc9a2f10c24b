#include <algorithm>

#include "runtime/nccl/captured_calls.h"

namespace tessera::nccl::TSR_CUDA {

CapturedCalls::CapturedCalls(Transport& transport) : transport_(transport) {
  transport_.set_capture(this);
  transport_.watch().add(*this);
}

CapturedCalls::~CapturedCalls() {
  if (transport_.capture() == this) transport_.set_capture(nullptr);
  transport_.watch().remove(*this);
}

void CapturedCalls::add(const std::string& text, std::chrono::milliseconds timeout) {
  ++num_calls_;
  if (first_.empty()) first_ = text;
  last_ = text;
  timeout_ = std::max(timeout_, timeout);
  waits_for_ever_ = waits_for_ever_ || timeout < std::chrono::milliseconds::zero();
}

void CapturedCalls::note_launch() {
  CudaDevice& device = transport_.device();
  Launch launch{++num_launches_, RankClock::now(), device.record(device.compute())};
  const std::lock_guard lock(mutex_);
  if (launches_.empty()) turn_since_ = launch.given;
  launches_.push_back(std::move(launch));
}

void CapturedCalls::forget_done() {
  while (!launches_.empty() && transport_.device().done(launches_.front().done)) {
    launches_.pop_front();
    turn_since_ = RankClock::now();
  }
}

std::string CapturedCalls::text_of(const Launch& launch) const {
  std::string text = "launch " + std::to_string(launch.number) + " of captured work, which has " +
                     std::to_string(num_calls_) + " calls";
  if (num_calls_ > 0) text += " from " + first_ + " to " + last_;
  return text;
}

std::string CapturedCalls::in_flight() {
  const std::lock_guard lock(mutex_);
  forget_done();
  return launches_.empty() ? "" : text_of(launches_.front());
}

Status CapturedCalls::look() {
  const std::lock_guard lock(mutex_);
  forget_done();
  if (launches_.empty() || num_calls_ == 0 || waits_for_ever_) return absl::OkStatus();
  if (RankClock::now() < turn_since_ + timeout_) return absl::OkStatus();
  return absl::DeadlineExceededError(
      to_absl("timed out in " + text_of(launches_.front()) + ": it is not done"));
}

}  // namespace tessera::nccl::TSR_CUDA
