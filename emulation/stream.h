// emulation/stream.h: streams as threads that run one operation after another, and the completions
// that order them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "emulation/block.h"
#include "emulation/cuda_runtime.h"

namespace tessera::emulation {

/// A moment in a stream's work that others wait for. What came before it there is seen by who
/// waited.
class Completion {
 public:
  void finish();
  void wait();
  /// Whether it came; if so, as wait().
  bool done();
  /// Seconds on the steady clock when it came.
  double seconds();

 private:
  friend class CompletionRef;
  std::mutex mutex_;
  std::condition_variable came_;
  bool done_ = false;
  double seconds_ = 0.0;
  std::int64_t users_ = 0;  // guarded by mutex_
};

/// Shared ownership whose counting orders nothing, unlike a shared_ptr's.
class CompletionRef {
 public:
  CompletionRef() = default;
  static CompletionRef make();
  CompletionRef(const CompletionRef& other);
  CompletionRef(CompletionRef&& other) noexcept;
  CompletionRef& operator=(CompletionRef other) noexcept;
  ~CompletionRef();
  Completion* operator->() const noexcept { return completion_; }
  explicit operator bool() const noexcept { return completion_ != nullptr; }

 private:
  Completion* completion_ = nullptr;
};

/// What a stream does at its turn.
using Operation = std::function<void(BlockRunner&)>;

class Capture;

class Stream {
 public:
  explicit Stream(int device);
  /// Waits for its work.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const noexcept { return device_; }
  void enqueue(Operation operation);
  /// A completion of all that was enqueued so far.
  CompletionRef mark();
  void wait_for(CompletionRef completion);
  /// Whether all its work is done; if so, its effects are seen.
  bool is_idle();

  Capture* capture = nullptr;  ///< guarded by the runtime's mutex
  std::size_t lane = 0;        ///< of the capture

 private:
  struct Task {
    Operation operation;       ///< null: none
    CompletionRef completion;  ///< finished after it; null: none
  };
  void enqueue(Task* task);
  void work();

  int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task*> tasks_;  // the first is under way
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace tessera::emulation
