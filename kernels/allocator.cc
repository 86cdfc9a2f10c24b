#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "kernels/memory_use.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes) \
  (static_cast<void>(address), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes) \
  (static_cast<void>(address), static_cast<void>(bytes))
#endif

namespace tessera {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLargest = std::size_t{1} << 46;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Null where the system has no memory left.
void* system_allocate(std::size_t bytes) noexcept {
  if (bytes > kLargest) return nullptr;
  if (bytes < kHugePage)
    return std::aligned_alloc(kAlignment, round_up(std::max(bytes, kAlignment), kAlignment));
  const std::size_t rounded = round_up(bytes, kHugePage);
  void* data = std::aligned_alloc(kHugePage, rounded);
  // Advice only: where the kernel refuses, small pages work too.
  if (data != nullptr) static_cast<void>(::madvise(data, rounded, MADV_HUGEPAGE));
  return data;
}

[[noreturn]] void throw_exhausted(std::size_t bytes) {
  throw Error(absl::ResourceExhaustedError(
      absl::StrFormat("allocate: no memory for a buffer of %d bytes", bytes)));
}

class PlainAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* data = system_allocate(bytes);
    if (data == nullptr) throw_exhausted(bytes);
    return data;
  }
  void release(void* data, std::size_t) noexcept override { std::free(data); }
};

/// Size classes: four to each power of two, from 64 bytes up; from 2 MiB in whole huge pages.
struct SizeClass {
  int index = 0;
  std::size_t bytes = 0;
};

constexpr SizeClass size_class_of(std::size_t bytes) noexcept {
  if (bytes <= kAlignment) return {0, kAlignment};
  const int power =
      static_cast<int>(std::bit_width(bytes - 1)) - 1;  // 2^power < bytes <= 2^(power + 1)
  const int step_shift = power - 2;
  const std::size_t quarters = ((bytes - 1) >> step_shift) - 3;  // 1 … 4 above 2^power
  const std::size_t rounded = (quarters + 4) << step_shift;
  const int index = (power - 6) * 4 + static_cast<int>(quarters);
  return {index, round_up(rounded, bytes >= kHugePage ? kHugePage : kAlignment)};
}
static_assert(size_class_of(64).index == 0 && size_class_of(65).index == 1);
static_assert(size_class_of(65).bytes == 128 && size_class_of(1024).bytes == 1024);
static_assert(size_class_of(1025).bytes == 1280 && size_class_of(1281).bytes == 1536);
constexpr int kNumClasses = size_class_of(kLargest).index + 1;

constexpr std::size_t bytes_of_class(int index) noexcept {
  if (index == 0) return kAlignment;
  const auto quarters = static_cast<std::size_t>((index - 1) % 4 + 5);
  const std::size_t rounded = quarters << ((index - 1) / 4 + 4);
  return round_up(rounded, rounded >= kHugePage ? kHugePage : kAlignment);
}
static_assert(bytes_of_class(size_class_of(65).index) == 128);
static_assert(bytes_of_class(size_class_of(1281).index) == 1536);
static_assert(bytes_of_class(size_class_of(kHugePage).index) == kHugePage);
static_assert(bytes_of_class(size_class_of(5 * kHugePage).index) ==
              size_class_of(5 * kHugePage).bytes);

/// Bytes by what they are used for. Only buffers with a tag are known one by one.
class TagCounts {
 public:
  void add(const void* data, std::size_t bytes) {
    total_ += static_cast<std::int64_t>(bytes);
    if (default_ != MemoryTag::kActivations) tagged_[data] = default_;
    count(bytes, default_);
    if (total_ <= most_) return;
    most_ = total_;
    memory_.at_peak = memory_.used;
  }
  void remove(const void* data, std::size_t bytes) noexcept {
    total_ -= static_cast<std::int64_t>(bytes);
    MemoryTag tag = MemoryTag::kActivations;
    if (const auto at = tagged_.find(data); at != tagged_.end()) {
      tag = at->second;
      tagged_.erase(at);
    }
    memory_.used[index_of(tag)] -= static_cast<std::int64_t>(bytes);
  }
  // A buffer often gets its tag just after it was made, so one of the peak moves there too.
  void move(const void* data, std::size_t bytes, MemoryTag to) {
    const auto [at, fresh] = tagged_.try_emplace(data, to);
    const MemoryTag from = fresh ? MemoryTag::kActivations : std::exchange(at->second, to);
    memory_.used[index_of(from)] -= static_cast<std::int64_t>(bytes);
    count(bytes, to);
    if (total_ == most_) memory_.at_peak = memory_.used;
  }
  MemoryTag set_default(MemoryTag tag) noexcept { return std::exchange(default_, tag); }
  const TaggedMemory& memory() const noexcept { return memory_; }

 private:
  static std::size_t index_of(MemoryTag tag) { return static_cast<std::size_t>(tag); }
  void count(std::size_t bytes, MemoryTag tag) noexcept {
    std::int64_t& used = memory_.used[index_of(tag)];
    used += static_cast<std::int64_t>(bytes);
    memory_.peak[index_of(tag)] = std::max(memory_.peak[index_of(tag)], used);
  }

  TaggedMemory memory_;
  absl::flat_hash_map<const void*, MemoryTag> tagged_;
  MemoryTag default_ = MemoryTag::kActivations;
  std::int64_t total_ = 0;
  std::int64_t most_ = 0;
};

class PoolAllocator final : public CountingAllocator {
 public:
  explicit PoolAllocator(std::shared_ptr<Allocator> source) : source_(std::move(source)) {}
  PoolAllocator(const PoolAllocator&) = delete;
  PoolAllocator& operator=(const PoolAllocator&) = delete;
  ~PoolAllocator() override { drop_all(); }

  void* allocate(std::size_t bytes) override {
    if (bytes > kLargest) throw_exhausted(bytes);
    const SizeClass size_class = size_class_of(bytes);
    {
      const std::lock_guard lock(mutex_);
      used_bytes_ += size_class.bytes;
      peak_bytes_ = std::max(peak_bytes_, used_bytes_);
      Block*& head = free_[static_cast<std::size_t>(size_class.index)];
      if (head != nullptr) {
        Block* block = head;
        head = block->next;
        cached_bytes_ -= size_class.bytes;
        ASAN_UNPOISON_MEMORY_REGION(block, bytes);
        tagged_.add(block, bytes);
        return block;
      }
    }
    void* data = allocate_fresh(bytes, size_class);
    const std::lock_guard lock(mutex_);
    tagged_.add(data, bytes);
    return data;
  }

  void release(void* data, std::size_t bytes) noexcept override {
    const SizeClass size_class = size_class_of(bytes);
    const std::lock_guard lock(mutex_);
    used_bytes_ -= size_class.bytes;
    tagged_.remove(data, bytes);
    ASAN_UNPOISON_MEMORY_REGION(data, size_class.bytes);
    // What is kept stays near what was in use at some time; beyond that this block goes back, and
    // the others stay for the next round: a training step asks for the same sizes again. Small
    // blocks are never many more than were in use at once, and asked for most often.
    if (size_class.bytes >= kHugePage &&
        cached_bytes_ + size_class.bytes > std::max(peak_bytes_ / 4 * 5, kAlwaysKeptBytes)) {
      source_->release(data, size_class.bytes);
      return;
    }
    auto* block = static_cast<Block*>(data);
    Block*& head = free_[static_cast<std::size_t>(size_class.index)];
    block->next = head;
    head = block;
    cached_bytes_ += size_class.bytes;
    ASAN_POISON_MEMORY_REGION(reinterpret_cast<std::byte*>(data) + sizeof(Block),
                              size_class.bytes - sizeof(Block));
  }

  MemoryUse use() const noexcept override {
    const std::lock_guard lock(mutex_);
    return {static_cast<std::int64_t>(used_bytes_), static_cast<std::int64_t>(peak_bytes_)};
  }
  TaggedMemory tagged_use() const noexcept override {
    const std::lock_guard lock(mutex_);
    return tagged_.memory();
  }
  void tag(const void* data, std::size_t bytes, MemoryTag tag) override {
    const std::lock_guard lock(mutex_);
    tagged_.move(data, bytes, tag);
  }
  MemoryTag set_default_tag(MemoryTag tag) noexcept override {
    const std::lock_guard lock(mutex_);
    return tagged_.set_default(tag);
  }

 private:
  /// A free block holds the link to the next one of its class.
  struct Block {
    Block* next;
  };
  static constexpr std::size_t kAlwaysKeptBytes = std::size_t{64} << 20;

  /// Null where the source has nothing left.
  void* from_source(std::size_t bytes) noexcept {
    try {
      return source_->allocate(bytes);
    } catch (const Error&) {
      return nullptr;
    }
  }

  void* allocate_fresh(std::size_t bytes, SizeClass size_class) {
    void* data = from_source(size_class.bytes);
    if (data == nullptr) {
      drop_all();
      data = from_source(size_class.bytes);
    }
    if (data == nullptr) {
      const std::lock_guard lock(mutex_);
      used_bytes_ -= size_class.bytes;
      throw_exhausted(bytes);
    }
    return data;
  }

  void drop_all() noexcept {
    const std::lock_guard lock(mutex_);
    drop_cached();
  }

  void drop_cached() noexcept {
    for (int index = 0; index < kNumClasses; ++index) {
      const std::size_t bytes = bytes_of_class(index);
      Block*& head = free_[static_cast<std::size_t>(index)];
      while (head != nullptr) {
        Block* block = head;
        head = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block, bytes);
        source_->release(block, bytes);
      }
    }
    cached_bytes_ = 0;
  }

  std::shared_ptr<Allocator> source_;
  mutable std::mutex mutex_;
  std::array<Block*, kNumClasses> free_{};
  std::size_t cached_bytes_ = 0;
  std::size_t used_bytes_ = 0;
  std::size_t peak_bytes_ = 0;
  TagCounts tagged_;
};

}  // namespace

std::int64_t TaggedMemory::total_used() const {
  return std::accumulate(used.begin(), used.end(), std::int64_t{0});
}
std::int64_t TaggedMemory::total_peak() const {
  return std::accumulate(at_peak.begin(), at_peak.end(), std::int64_t{0});
}

std::string_view name_of(MemoryTag tag) noexcept {
  switch (tag) {
    case MemoryTag::kParameters:
      return "parameters";
    case MemoryTag::kGradients:
      return "gradients";
    case MemoryTag::kOptimizerState:
      return "optimizer state";
    case MemoryTag::kGathered:
      return "gathered";
    case MemoryTag::kActivations:
      break;
  }
  return "activations";
}

std::shared_ptr<Allocator> plain_allocator() {
  // Never destroyed: objects that outlive main() may still make arrays.
  static const auto& allocator =
      *new std::shared_ptr<Allocator>(std::make_shared<PlainAllocator>());
  return allocator;
}

MemoryUse memory_use_of(const Allocator& allocator) noexcept {
  const auto* counting = dynamic_cast<const CountingAllocator*>(&allocator);
  return counting == nullptr ? MemoryUse{} : counting->use();
}

TaggedMemory tagged_memory_of(const Allocator& allocator) noexcept {
  const auto* counting = dynamic_cast<const CountingAllocator*>(&allocator);
  return counting == nullptr ? TaggedMemory{} : counting->tagged_use();
}

MemoryTagScope::MemoryTagScope(Allocator& allocator, MemoryTag tag)
    : counting_(dynamic_cast<CountingAllocator*>(&allocator)) {
  if (counting_ != nullptr) before_ = counting_->set_default_tag(tag);
}
MemoryTagScope::~MemoryTagScope() {
  if (counting_ != nullptr) counting_->set_default_tag(before_);
}

void tag_memory(Allocator& allocator, const Array& array, MemoryTag tag) {
  auto* counting = dynamic_cast<CountingAllocator*>(&allocator);
  if (counting == nullptr || array.is_null()) return;
  counting->tag(array.storage()->data(), array.storage()->bytes(), tag);
}

std::shared_ptr<CountingAllocator> make_pool_over(std::shared_ptr<Allocator> source) {
  return std::make_shared<PoolAllocator>(std::move(source));
}

std::shared_ptr<Allocator> make_pool_allocator() { return make_pool_over(plain_allocator()); }

}  // namespace tessera
