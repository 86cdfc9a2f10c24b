#include "runtime/sim/allocator.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kWindow = std::size_t{16} << 20;
/// From here on memory comes page by page, as it is written.
constexpr std::size_t kLazy = std::size_t{1} << 20;
constexpr std::size_t kLargest = std::size_t{1} << 46;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void throw_exhausted(std::size_t bytes) {
  throw Error(absl::ResourceExhaustedError(
      absl::StrFormat("allocate: no addresses for a simulated buffer of %d bytes", bytes)));
}

/// Windows larger for larger buffers: a process may have 65,530 mappings.
std::size_t window_for(std::size_t bytes) {
  return std::max(kWindow, round_up(bytes / 1024, kPage));
}

class SimAllocator final : public CountingAllocator {
 public:
  /// Smaller buffers are memory like any other: kernels look at some of them (splits, scalars).
  explicit SimAllocator(std::size_t value_bytes) : value_bytes_(value_bytes) {}
  SimAllocator(const SimAllocator&) = delete;
  SimAllocator& operator=(const SimAllocator&) = delete;
  ~SimAllocator() override {
    if (region_ >= 0) ::close(region_);
  }

  void* allocate(std::size_t bytes) override {
    if (bytes > kLargest) throw_exhausted(bytes);
    void* data = bytes < value_bytes_ ? small(bytes) : large(bytes);
    if (data == nullptr) throw_exhausted(bytes);
    const std::int64_t now = used_ += static_cast<std::int64_t>(bytes);
    std::int64_t peak = peak_;
    while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
    }
    return data;
  }

  void release(void* data, std::size_t bytes) noexcept override {
    used_ -= static_cast<std::int64_t>(bytes);
    if (bytes < value_bytes_ && bytes < kLazy) {
      std::free(data);
    } else {
      ::munmap(data, round_up(bytes, kPage));
    }
  }

  MemoryUse use() const noexcept override { return {used_, peak_}; }

 private:
  static void* small(std::size_t bytes) noexcept {
    if (bytes >= kLazy) {
      void* zeros = ::mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      return zeros == MAP_FAILED ? nullptr : zeros;
    }
    const std::size_t rounded = round_up(std::max(bytes, kAlignment), kAlignment);
    void* data = std::aligned_alloc(kAlignment, rounded);
    if (data != nullptr) std::memset(data, 0, rounded);
    return data;
  }

  void* large(std::size_t bytes) noexcept {
    const std::size_t rounded = round_up(bytes, kPage);
    void* reserved =
        ::mmap(nullptr, rounded, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) return nullptr;
    if (cover(static_cast<std::byte*>(reserved), rounded)) return reserved;
    ::munmap(reserved, rounded);
    return nullptr;
  }

  // Lets every page of [data, data + bytes) show the region.
  bool cover(std::byte* data, std::size_t bytes) noexcept {
    const std::size_t window = std::min(bytes, window_for(bytes));
    if (!grow_region(window)) return false;
    for (std::size_t at = 0; at < bytes; at += window) {
      const std::size_t length = std::min(window, bytes - at);
      if (::mmap(data + at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                 region_, 0) == MAP_FAILED) {
        return false;
      }
    }
    return true;
  }

  bool grow_region(std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (region_ < 0) region_ = ::memfd_create("tessera_sim", MFD_CLOEXEC);
    if (region_ < 0) return false;
    if (bytes <= region_bytes_) return true;
    if (::ftruncate(region_, static_cast<off_t>(bytes)) != 0) return false;
    region_bytes_ = bytes;
    return true;
  }

  const std::size_t value_bytes_;
  std::mutex mutex_;
  int region_ = -1;
  std::size_t region_bytes_ = 0;
  std::atomic<std::int64_t> used_{0};
  std::atomic<std::int64_t> peak_{0};
};

}  // namespace

std::shared_ptr<CountingAllocator> make_sim_allocator(std::int64_t value_bytes) {
  return std::make_shared<SimAllocator>(static_cast<std::size_t>(value_bytes));
}

}  // namespace tessera
