// runtime/nccl/captured_calls.h: the calls that a rank's captured work holds, and the launches of
// it that are in flight: what the watch goes by, for the marks of captured calls say nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "runtime/nccl/transport.h"
#include "runtime/world.h"

namespace tessera::nccl::TSR_CUDA {

/// Thread-safety: its rank's thread, but for what says "any thread".
class CapturedCalls final : public RankCapture {
 public:
  /// The transport's calls belong to it until close().
  explicit CapturedCalls(Transport& transport);
  CapturedCalls(const CapturedCalls&) = delete;
  CapturedCalls& operator=(const CapturedCalls&) = delete;
  ~CapturedCalls() override;

  /// A call that the device's capture has.
  void add(const std::string& text, std::chrono::milliseconds timeout);

  void close() override { transport_.set_capture(nullptr); }
  bool compares() const noexcept override { return transport_.checks() == CallChecks::kOn; }
  void note_launch() override;

  /// Any thread. The launch that the device is at; empty where it is at none.
  std::string in_flight();
  /// Any thread. DeadlineExceeded where a launch takes longer than the longest of its calls may,
  /// from the end of the one before.
  Status look();

 private:
  struct Launch {
    std::int64_t number = 0;
    RankClock::time_point given;
    Mark done;
  };
  /// Under mutex_. Forgets launches that are done.
  void forget_done();
  std::string text_of(const Launch& launch) const;

  Transport& transport_;
  std::int64_t num_launches_ = 0;
  // Constant after close().
  std::int64_t num_calls_ = 0;
  std::string first_, last_;
  std::chrono::milliseconds timeout_{0};
  bool waits_for_ever_ = false;

  std::mutex mutex_;
  std::deque<Launch> launches_;       // under mutex_; not yet seen to be done
  RankClock::time_point turn_since_;  // under mutex_; of the first of them
};

}  // namespace tessera::nccl::TSR_CUDA
