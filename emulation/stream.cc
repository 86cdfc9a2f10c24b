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

void Stream::enqueue(Operation operation) { enqueue(new Task{std::move(operation), {}}); }

void Stream::enqueue(Task* task) {
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
  enqueue(new Task{{}, completion});
  return completion;
}

void Stream::wait_for(CompletionRef completion) {
  enqueue([completion = std::move(completion)](BlockRunner&) { completion->wait(); });
}

// Who has waited for the last task finds the stream idle, though its thread has yet to drop the
// task.
bool Stream::is_idle() {
  {
    const Hidden hidden;
    const std::lock_guard lock(mutex_);
    if (tasks_.size() > 1) return false;
    if (tasks_.size() == 1) {
      const CompletionRef& last = tasks_.front()->completion;
      if (!last || !last->done()) return false;
    }
  }
  order_after(&tasks_);
  return true;
}

void Stream::work() {
  BlockRunner runner;
  for (;;) {
    Task* task = nullptr;
    {
      const Hidden hidden;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = tasks_.front();
    }
    order_after(task);
    if (task->operation) std::exchange(task->operation, {})(runner);
    order_before(&tasks_);
    if (task->completion) task->completion->finish();
    {
      const Hidden hidden;
      const std::lock_guard lock(mutex_);
      tasks_.pop_front();
    }
    delete task;
  }
}

}  // namespace tessera::emulation
