#include <sys/mman.h>

#include <map>
#include <mutex>

#include "runtime/mpi/shared_segment.h"

namespace tessera {
namespace {

constexpr std::int64_t kPage = 4096;
constexpr std::int64_t kLeastBytes = 4 * 1024;  // as long as what is read in place
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

std::int64_t round_up(std::int64_t bytes, std::int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// First fit over the free ranges of the segment, which merge with their neighbours.
class SegmentAllocator final : public Allocator {
 public:
  explicit SegmentAllocator(std::shared_ptr<SharedSegment> segment) : segment_(std::move(segment)) {
    // The first page holds the token.
    free_.emplace(kPage, segment_->bytes() - kPage);
  }

  void* allocate(std::size_t bytes) override {
    const bool shared = bytes >= static_cast<std::size_t>(kLeastBytes) &&
                        bytes < static_cast<std::size_t>(segment_->bytes());
    if (shared) {
      if (std::byte* data = take(static_cast<std::int64_t>(bytes))) {
        use_huge_pages(data, static_cast<std::int64_t>(bytes));
        return data;
      }
    }
    return plain_allocator()->allocate(bytes);
  }

  void release(void* data, std::size_t bytes) noexcept override {
    if (!segment_->holds(data)) return plain_allocator()->release(data, bytes);
    const std::int64_t size = size_of_block(static_cast<std::int64_t>(bytes));
    // Gives the pages back; the addresses stay.
    static_cast<void>(::madvise(data, static_cast<std::size_t>(size), MADV_REMOVE));
    const std::lock_guard lock(mutex_);
    give_back(static_cast<std::byte*>(data) - segment_->data(), size);
  }

 private:
  static std::int64_t unit_of(std::int64_t bytes) { return bytes >= kHugePage ? kHugePage : kPage; }
  static std::int64_t size_of_block(std::int64_t bytes) { return round_up(bytes, unit_of(bytes)); }

  // Where the system gives shared memory small pages only, it still merges them when asked.
  static void use_huge_pages(std::byte* data, std::int64_t bytes) noexcept {
    if (bytes < kHugePage) return;
    for (std::int64_t at = 0; at < bytes; at += kHugePage) data[at] = std::byte{0};
    static_cast<void>(
        ::madvise(data, static_cast<std::size_t>(round_up(bytes, kHugePage)), MADV_COLLAPSE));
  }

  std::byte* take(std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::int64_t size = size_of_block(bytes);
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      const std::int64_t begin = range->first, end = begin + range->second;
      const std::int64_t at = round_up(begin, unit_of(bytes));
      if (at + size > end) continue;
      free_.erase(range);
      if (at > begin) free_.emplace(begin, at - begin);
      if (at + size < end) free_.emplace(at + size, end - at - size);
      return segment_->data() + at;
    }
    return nullptr;
  }

  void give_back(std::int64_t begin, std::int64_t size) {
    auto next = free_.lower_bound(begin);
    if (next != free_.end() && next->first == begin + size) {
      size += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += size;
        return;
      }
    }
    free_.emplace_hint(next, begin, size);
  }

  std::shared_ptr<SharedSegment> segment_;
  std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> free_;  ///< bytes by offset
};

}  // namespace

std::shared_ptr<Allocator> make_segment_allocator(std::shared_ptr<SharedSegment> segment) {
  return std::make_shared<SegmentAllocator>(std::move(segment));
}

}  // namespace tessera
