#include "emulation/stream.h"

#include <chrono>
#include <utility>

#include "emulation/sanitizer.h"

namespace tessera::emulation {

void Completion::finish() {
  order_before(this);
  const Hidden hidden;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    seconds_ =
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  came_.notify_all();
}

void Completion::wait() {
  {
    const Hidden hidden;
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return done_; });
  }
  order_after(this);
}

bool Completion::done() {
  {
    const Hidden hidden;
    const std::lock_guard lock(mutex_);
    if (!done_) return false;
  }
  order_after(this);
  return true;
}

double Completion::seconds() {
  const Hidden hidden;
  const std::lock_guard lock(mutex_);
  return seconds_;
}

CompletionRef CompletionRef::make() {
  const Hidden hidden;
  CompletionRef made;
  made.completion_ = new Completion;
  made.completion_->users_ = 1;
  return made;
}

CompletionRef::CompletionRef(const CompletionRef& other) : completion_(other.completion_) {
  if (completion_ == nullptr) return;
  const Hidden hidden;
  const std::lock_guard lock(completion_->mutex_);
  ++completion_->users_;
}

CompletionRef::CompletionRef(CompletionRef&& other) noexcept
    : completion_(std::exchange(other.completion_, nullptr)) {}

CompletionRef& CompletionRef::operator=(CompletionRef other) noexcept {
  std::swap(completion_, other.completion_);
  return *this;
}

CompletionRef::~CompletionRef() {
  if (completion_ == nullptr) return;
  const Hidden hidden;
  bool last = false;
  {
    const std::lock_guard lock(completion_->mutex_);
    last = --completion_->users_ == 0;
  }
  if (last) delete completion_;
}

Stream::Stream(int device) : device_(device), thread_([this] { work(); }) {}

Stream::~Stream() {
  const Hidden hidden;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::enqueue(Operation operation) {
  auto* task = new Task{std::move(operation)};
  order_before(task);
  const Hidden hidden;
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(task);
    if (tasks_.size() > 1) return;  // its thread is awake
  }
  changed_.notify_all();
}

CompletionRef Stream::mark() {
  CompletionRef completion = CompletionRef::make();
  enqueue([completion](BlockRunner&) { completion->finish(); });
  return completion;
}

void Stream::wait_for(CompletionRef completion) {
  enqueue([completion = std::move(completion)](BlockRunner&) { completion->wait(); });
}

bool Stream::is_idle() {
  {
    const Hidden hidden;
    const std::lock_guard lock(mutex_);
    if (!tasks_.empty()) return false;
  }
  order_after(&tasks_);
  return true;
}

void Stream::work() {
  BlockRunner runner;
  Task* task = nullptr;
  for (;;) {
    {
      const Hidden hidden;
      std::unique_lock lock(mutex_);
      if (task != nullptr) tasks_.pop_front();
      changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = tasks_.front();
    }
    order_after(task);
    task->operation(runner);
    delete task;
    order_before(&tasks_);
  }
}

}  // namespace tessera::emulation
