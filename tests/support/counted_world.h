// tests/support/counted_world.h: a rank's World that counts what its arrays take, to the byte.
#pragma once

#include <atomic>
#include <memory>

#include "kernels/memory_use.h"
#include "runtime/world.h"

namespace tessera::testing {

/// Counts the bytes asked for, without what a pool rounds up.
class ExactAllocator final : public CountingAllocator {
 public:
  void* allocate(std::size_t bytes) override {
    const std::int64_t now = used_ += static_cast<std::int64_t>(bytes);
    std::int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return plain_allocator()->allocate(bytes);
  }
  void release(void* data, std::size_t bytes) noexcept override {
    used_ -= static_cast<std::int64_t>(bytes);
    plain_allocator()->release(data, bytes);
  }
  MemoryUse use() const noexcept override { return {used_, peak_}; }
  /// The most from now on.
  void forget_peak() noexcept { peak_ = used_.load(); }

 private:
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> peak_{0};
};

/// Another World whose arrays come from an ExactAllocator.
class CountedWorld final : public World {
 public:
  explicit CountedWorld(World& inner) : inner_(inner) { allocator_ = exact_; }
  ExactAllocator& exact_allocator() noexcept { return *exact_; }
  std::int64_t rank() const noexcept override { return inner_.rank(); }
  std::int64_t size() const noexcept override { return inner_.size(); }
  int threads_per_rank() const noexcept override { return inner_.threads_per_rank(); }
  StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) override {
    return inner_.group(ranks);
  }
  void poison(const Status& status) override { inner_.poison(status); }
  double now_us() const override { return inner_.now_us(); }

 private:
  World& inner_;
  std::shared_ptr<ExactAllocator> exact_ = std::make_shared<ExactAllocator>();
};

}  // namespace tessera::testing
