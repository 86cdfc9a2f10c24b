// How a block runs: warp by warp, each lane until it waits or ends; lanes that wait for one another
// are let go when the last has come. A lane that waits or ends hands on to the next one of its warp
// itself where fibers can (Fiber::kPasses), and leaves to the block's loop where its warp cannot go
// on. Where no lane can go on and some have not ended, the block waits for a thread that will never
// come: a fault. The thread sanitizer sees each device thread as a thread of its own. It is told
// that a grid begins after what its stream did before, that a barrier orders the threads that met
// at it, and nothing else; objects that stand for barriers are new in each block, for blocks have
// no order. This source is not instrumented (cmake/emulation.cmake); what it allocates is of its
// own types or raw, so that no instrumented copy of a template serves it.
#include "emulation/block.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emulation/fiber.h"
#include "emulation/sanitizer.h"

namespace tessera::emulation {
namespace {

#ifdef TSR_UNDER_THREAD_SANITIZER
constexpr bool kJudgedByThread = true;
#else
constexpr bool kJudgedByThread = false;
#endif
constexpr unsigned kMaxWarps = kMaxBlockThreads / kWarpSize;
constexpr unsigned kMaxStaticShared = 16;
constexpr unsigned kNone = kMaxBlockThreads;

struct DeviceThread {
  Fiber* fiber = nullptr;        // until it starts
  const void* atomic = nullptr;  // the last that it touched
  bool fenced = false;           // since when its atomics publish
};

// Where the threads of a warp stand, a bit for each lane: one that is live is ready, or waits at a
// barrier of the block or of its warp, or is the one that runs.
struct Warp {
  std::uint32_t live = 0;
  std::uint32_t ready = 0;
  std::uint32_t at_block_barrier = 0;
  std::uint32_t at_warp_barrier = 0;
};

// Calls use(lane) for each bit, from the lowest.
template <class Use>
void for_each_lane(std::uint32_t lanes, Use use) {
  for (; lanes != 0; lanes &= lanes - 1) use(static_cast<unsigned>(std::countr_zero(lanes)));
}

// A place for the sanitizer to keep an order at: two a barrier, taken in turn, for a thread may
// come to the next barrier before another has left this one.
struct Order {
  std::uint64_t even, odd;
  const void* of(unsigned phase) const { return phase % 2 == 0 ? &even : &odd; }
};
struct Orders {
  Order block;
  Order warps[kMaxWarps][kWarpSize];  // by the lowest lane of the mask
};

struct Shared {
  const void* variable = nullptr;
  void* memory = nullptr;
};

thread_local Position running_position;
thread_local BlockRunner::Impl* running = nullptr;

void* fresh_memory(std::size_t bytes) {
  const Hidden hidden;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) {
    std::fprintf(stderr, "emulated device: no memory for %zu bytes of a block\n", bytes);
    std::abort();
  }
  std::memset(memory, kPoison, bytes);
  return memory;
}
void free_memory(void* memory) {
  const Hidden hidden;
  std::free(memory);
}

}  // namespace

class BlockRunner::Impl {
 public:
  ~Impl() {
    for (unsigned i = 0; i < num_fibers_; ++i) delete fibers_[i];
  }

  const char* run(const LaunchShape& shape, void (*body)(void*), void* argument) {
    take_shape(shape);
    body_ = body;
    argument_ = argument;
    fault_[0] = '\0';
    running = this;
    running_position.block_dim = shape.block;
    running_position.grid_dim = shape.grid;
    uint3& block = running_position.block;
    for (block.z = 0; block.z < shape.grid.z && fault_[0] == '\0'; ++block.z) {
      for (block.y = 0; block.y < shape.grid.y && fault_[0] == '\0'; ++block.y) {
        for (block.x = 0; block.x < shape.grid.x && fault_[0] == '\0'; ++block.x) run_block();
      }
    }
    running = nullptr;
    order_after(&end_);
    return fault_[0] == '\0' ? nullptr : fault_;
  }

  int block_barrier(bool value) {
    brought_[current_] = value ? 1 : 0;
    const unsigned phase = block_phase_;
    warp_of(current_).at_block_barrier |= bit_of(current_);
    wait(orders_->block.of(phase));
    return block_count_[phase % 2];
  }

  void warp_barrier(std::uint32_t mask) {
    const unsigned warp = current_ / kWarpSize;
    const unsigned leader = check_mask(mask);
    const void* order =
        kJudgedByThread ? orders_->warps[warp][leader].of(warp_phases_[warp][leader]) : nullptr;
    masks_[current_] = mask;
    warp_of(current_).at_warp_barrier |= bit_of(current_);
    wait(order);
  }

  // Values pass, no order does: an exchange is no fence.
  std::uint64_t warp_exchange(std::uint32_t mask, std::uint64_t bits, unsigned source) {
    meet_warp(mask, bits);
    if (source >= kWarpSize || (met_masks_[current_] >> source & 1) == 0) {
      char text[80];
      std::snprintf(text, sizeof text, "lane %u reads lane %u, which does not take part",
                    current_ % kWarpSize, source);
      device_fault(text);
    }
    return published_[current_ / kWarpSize * kWarpSize + source];
  }

  std::uint32_t warp_ballot(std::uint32_t mask, bool value) {
    meet_warp(mask, value ? 1 : 0);
    std::uint32_t votes = 0;
    const unsigned first = current_ / kWarpSize * kWarpSize;
    for_each_lane(met_masks_[current_], [&](unsigned lane) {
      if (published_[first + lane] != 0) votes |= 1u << lane;
    });
    return votes;
  }

  std::uint32_t live_lanes() const { return warps_[current_ / kWarpSize].live; }

  void* dynamic_shared() {
    if (shape_->shared_bytes == 0) device_fault("no dynamic shared memory was asked for");
    if (dynamic_shared_ == nullptr) dynamic_shared_ = fresh_memory(shape_->shared_bytes);
    return dynamic_shared_;
  }

  void* static_shared(const void* variable, std::size_t bytes) {
    for (Shared& each : static_shared_) {
      if (each.variable == variable) return each.memory;
      if (each.variable != nullptr) continue;
      each = {.variable = variable, .memory = fresh_memory(bytes)};
      return each.memory;
    }
    device_fault("more shared variables than a block may have here");
  }

  void memory_fence() {
    if (threads_[current_].atomic != nullptr) order_after(threads_[current_].atomic);
    threads_[current_].fenced = true;
  }
  void before_atomic(const void* at) {
    if (threads_[current_].fenced) order_before(at);
  }
  void after_atomic(const void* at) { threads_[current_].atomic = at; }

  [[noreturn]] void device_fault(const char* what) {
    note_fault(what);
    order_before(&end_);
    threads_[current_].fiber->leave();
    std::abort();  // it is never entered again
  }

 private:
  static std::uint32_t bit_of(unsigned thread) { return 1u << thread % kWarpSize; }
  Warp& warp_of(unsigned thread) { return warps_[thread / kWarpSize]; }

  // Places are worked out once for blocks of one shape: divisions cost more than a switch.
  void take_shape(const LaunchShape& shape) {
    shape_ = &shape;
    const dim3& block = shape.block;
    const unsigned num_threads = block.x * block.y * block.z;
    if (num_threads == num_threads_ && block.x == placed_.x && block.y == placed_.y) return;
    num_threads_ = num_threads;
    placed_ = block;
    for (unsigned i = 0; i < num_threads; ++i) {
      places_[i] = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
    }
  }

  void run_block() {
    order_before(&start_);
    live_ = num_threads_;
    block_phase_ = 0;
    ++block_number_;
    for (unsigned i = 0; i < num_threads_; ++i) threads_[i] = DeviceThread{};
    for (unsigned first = 0; first < num_threads_; first += kWarpSize) {
      const unsigned lanes = num_threads_ - first < kWarpSize ? num_threads_ - first : kWarpSize;
      const std::uint32_t all = ~std::uint32_t{0} >> (kWarpSize - lanes);
      warp_of(first) = {.live = all, .ready = all};
    }
    std::memset(warp_phases_, 0, sizeof warp_phases_);
    orders_ = kJudgedByThread ? static_cast<Orders*>(fresh_memory(sizeof(Orders))) : &unjudged_;
    while (fault_[0] == '\0') {
      bool moved = false;
      for (unsigned first = 0; first < num_threads_ && fault_[0] == '\0'; first += kWarpSize) {
        moved |= run_warp(first);
      }
      if (live_ == 0 || fault_[0] != '\0') break;
      if (!let_block_go() && !moved) note_stuck();
    }
    if (kJudgedByThread) free_memory(orders_);
    if (dynamic_shared_ != nullptr) free_memory(dynamic_shared_);
    dynamic_shared_ = nullptr;
    for (Shared& each : static_shared_) {
      if (each.memory != nullptr) free_memory(each.memory);
      each = Shared{};
    }
    if (fault_[0] == '\0') return;
    for (unsigned i = 0; i < num_fibers_; ++i) free_fibers_[i] = fibers_[i];
    num_free_ = num_fibers_;
  }

  bool run_warp(unsigned first) {
    const Warp& warp = warp_of(first);
    bool moved = false;
    do {
      while (warp.ready != 0) {
        moved = true;
        go_on(first + static_cast<unsigned>(std::countr_zero(warp.ready)));
        if (fault_[0] != '\0') return true;
      }
    } while (let_warp_go(first));
    return moved;
  }

  void go_on(unsigned i) {
    Fiber& fiber = fiber_of(i);
    set_current(i);
    fiber.resume();
  }

  void set_current(unsigned i) {
    current_ = i;
    warp_of(i).ready &= ~bit_of(i);
    running_position.thread = places_[i];
  }

  // The lane of the warp that runs next; none where all that are live wait for others.
  unsigned next_lane(unsigned first) {
    const Warp& warp = warp_of(first);
    if (warp.ready == 0 && !let_warp_go(first)) return kNone;
    return first + static_cast<unsigned>(std::countr_zero(warp.ready));
  }

  Fiber& fiber_of(unsigned i) {
    if (threads_[i].fiber == nullptr) {
      threads_[i].fiber = take_fiber(i);
      threads_[i].fiber->start(&Impl::run_threads, this);
    }
    return *threads_[i].fiber;
  }

  // The body of every fiber: one device thread; then, unless each must be one of the sanitizer's
  // threads, the next of its warp that has not begun, without a switch.
  static void run_threads(void* self) {
    auto* runner = static_cast<Impl*>(self);
    for (;;) {
      order_after(&runner->start_);
      runner->body_(runner->argument_);
      order_before(&runner->end_);
      const unsigned ended = runner->current_;
      Fiber* fiber = runner->threads_[ended].fiber;
      runner->warp_of(ended).live &= ~bit_of(ended);
      --runner->live_;
      const unsigned next =
          kJudgedByThread ? kNone : runner->next_lane(ended / kWarpSize * kWarpSize);
      if (next != kNone && runner->threads_[next].fiber == nullptr) {
        runner->threads_[next].fiber = fiber;
        runner->set_current(next);
        continue;
      }
      runner->free_fibers_[runner->num_free_++] = fiber;
      if (next != kNone && Fiber::kPasses) {
        runner->set_current(next);
        fiber->pass_to(*runner->threads_[next].fiber);  // for good: it is free, and starts anew
      }
      fiber->leave();
    }
  }

  // Under the thread sanitizer a device thread is another fiber in each block: one that were the
  // same would have an order with itself.
  Fiber* take_fiber(unsigned i) {
    if (kJudgedByThread) {
      const unsigned least = num_threads_ < kWarpSize ? kWarpSize : num_threads_;
      while (num_fibers_ < least) fibers_[num_fibers_++] = new Fiber;
      num_free_ = 0;
      return fibers_[(i + block_number_) % least];
    }
    if (num_free_ == 0) return fibers_[num_fibers_++] = new Fiber;
    return free_fibers_[--num_free_];
  }

  void wait(const void* order) {
    if (order != nullptr) order_before(order);
    order_before(&end_);  // it may never come to its own
    hand_on();
    if (order != nullptr) order_after(order);
  }

  // Another lane of the warp runs, or the block's loop; this one comes back once it is let go.
  void hand_on() {
    Fiber& own = *threads_[current_].fiber;
    if (!Fiber::kPasses) return own.leave();
    const unsigned waiting = current_;
    const unsigned next = next_lane(waiting / kWarpSize * kWarpSize);
    if (next == kNone) return own.leave();
    Fiber& fiber = fiber_of(next);
    set_current(next);
    if (next != waiting) own.pass_to(fiber);
  }

  unsigned check_mask(std::uint32_t mask) {
    if ((mask >> current_ % kWarpSize & 1) == 0)
      device_fault("a lane that is not in the mask it gives");
    return static_cast<unsigned>(std::countr_zero(mask));
  }

  void meet_warp(std::uint32_t mask, std::uint64_t bits) {
    check_mask(mask);
    brought_[current_] = bits;
    masks_[current_] = mask;
    warp_of(current_).at_warp_barrier |= bit_of(current_);
    wait(nullptr);
  }

  // Lets go lanes that all wait with one mask, where no live lane of it is missing.
  bool let_warp_go(unsigned first) {
    Warp& warp = warp_of(first);
    bool any = false;
    for (std::uint32_t rest = warp.at_warp_barrier; rest != 0;) {
      const std::uint32_t mask = masks_[first + static_cast<unsigned>(std::countr_zero(rest))];
      std::uint32_t there = 0;
      for_each_lane(rest, [&](unsigned lane) {
        if (masks_[first + lane] == mask) there |= 1u << lane;
      });
      rest &= ~there;
      if ((mask & warp.live) != there) continue;  // each lane is in the mask that it gives
      for_each_lane(there, [&](unsigned lane) {
        published_[first + lane] = brought_[first + lane];
        met_masks_[first + lane] = there;
      });
      warp.at_warp_barrier &= ~there;
      warp.ready |= there;
      ++warp_phases_[first / kWarpSize][std::countr_zero(mask)];
      any = true;
    }
    return any;
  }

  bool let_block_go() {
    unsigned there = 0;
    int count = 0;
    for (unsigned first = 0; first < num_threads_; first += kWarpSize) {
      for_each_lane(warp_of(first).at_block_barrier, [&](unsigned lane) {
        ++there;
        count += static_cast<int>(brought_[first + lane]);
      });
    }
    if (there != live_) return false;
    block_count_[block_phase_ % 2] = count;
    ++block_phase_;
    for (unsigned first = 0; first < num_threads_; first += kWarpSize) {
      Warp& warp = warp_of(first);
      warp.ready |= warp.at_block_barrier;
      warp.at_block_barrier = 0;
    }
    return true;
  }

  void note_stuck() {
    for (unsigned i = 0; i < num_threads_; ++i) {
      const bool of_block = (warp_of(i).at_block_barrier & bit_of(i)) != 0;
      if (!of_block && (warp_of(i).at_warp_barrier & bit_of(i)) == 0) continue;
      set_current(i);
      note_fault(
          of_block ? "waits at a barrier of the block that another live thread does not reach"
                   : "waits at a barrier of the warp that another lane of its mask does not reach");
      return;
    }
  }

  void note_fault(const char* what) {
    const Hidden hidden;
    const Position& at = running_position;
    std::snprintf(fault_, sizeof fault_, "thread (%u, %u, %u) of block (%u, %u, %u): %s",
                  at.thread.x, at.thread.y, at.thread.z, at.block.x, at.block.y, at.block.z, what);
  }

  const LaunchShape* shape_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  dim3 placed_;  // the block's shape that places_ are of
  uint3 places_[kMaxBlockThreads];
  unsigned num_threads_ = 0;
  unsigned live_ = 0;
  unsigned current_ = 0;
  unsigned block_number_ = 0;
  unsigned block_phase_ = 0;
  int block_count_[2] = {0, 0};
  unsigned warp_phases_[kMaxWarps][kWarpSize] = {};
  DeviceThread threads_[kMaxBlockThreads];
  Warp warps_[kMaxWarps];
  // Of warp barriers, a thread each: what it brings and the mask it gives; what met, and who.
  std::uint64_t brought_[kMaxBlockThreads] = {};
  std::uint32_t masks_[kMaxBlockThreads] = {};
  std::uint64_t published_[kMaxBlockThreads] = {};
  std::uint32_t met_masks_[kMaxBlockThreads] = {};
  Fiber* fibers_[kMaxBlockThreads] = {};
  unsigned num_fibers_ = 0;
  Fiber* free_fibers_[kMaxBlockThreads] = {};
  unsigned num_free_ = 0;
  Orders unjudged_{};
  Orders* orders_ = nullptr;
  void* dynamic_shared_ = nullptr;
  Shared static_shared_[kMaxStaticShared];
  char fault_[256] = {};
  std::uint64_t start_ = 0,
                end_ = 0;  // where the sanitizer keeps the order of a grid with its stream
};

BlockRunner::BlockRunner() : impl_(std::make_unique<Impl>()) {}
BlockRunner::~BlockRunner() = default;

const char* BlockRunner::run(const LaunchShape& shape, void (*body)(void*), void* argument) {
  return impl_->run(shape, body, argument);
}

namespace {

BlockRunner::Impl& here() {
  if (running == nullptr) {
    std::fprintf(stderr, "emulated device: device code outside of a launch\n");
    std::abort();
  }
  return *running;
}

}  // namespace

const Position& position() noexcept { return running_position; }
int block_barrier(bool value) { return here().block_barrier(value); }
void warp_barrier(std::uint32_t mask) { here().warp_barrier(mask); }
std::uint64_t warp_exchange(std::uint32_t mask, std::uint64_t bits, unsigned source) {
  return here().warp_exchange(mask, bits, source);
}
std::uint32_t warp_ballot(std::uint32_t mask, bool value) {
  return here().warp_ballot(mask, value);
}
std::uint32_t live_lanes() { return here().live_lanes(); }
void* dynamic_shared() { return here().dynamic_shared(); }
void* static_shared(const void* variable, std::size_t bytes) {
  return here().static_shared(variable, bytes);
}
void memory_fence() { here().memory_fence(); }
void before_atomic(const void* at) { here().before_atomic(at); }
void after_atomic(const void* at) { here().after_atomic(at); }
void device_fault(const char* what) { here().device_fault(what); }

}  // namespace tessera::emulation
