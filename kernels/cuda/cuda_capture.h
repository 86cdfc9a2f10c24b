// kernels/cuda/cuda_capture.h: what captured work needs for as long as it may be done again: blocks
// of device memory, memory of the host that its copies read, what its faults mean.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kernels/cuda/cuda_device.h"

namespace tessera::kernels::TSR_CUDA {

/// Thread-safety: blocks by any thread, the rest by the thread that captures.
class CaptureStore {
 public:
  /// `number`: which captures share; that of the first mark of this one.
  CaptureStore(std::uint64_t number, unsigned long long first_launch)
      : number_(number), first_launch_(first_launch) {}
  ~CaptureStore();
  CaptureStore(const CaptureStore&) = delete;
  CaptureStore& operator=(const CaptureStore&) = delete;

  std::uint64_t number() const noexcept { return number_; }

  /// A released block of this size class; null where there is none.
  void* take(int size_class);
  /// A new block is this capture's from now on.
  void add(void* block, int size_class);
  /// One of its blocks is released.
  void give(void* block);

  /// Pinned memory that a copy reads each time.
  void* staging(std::size_t bytes, const Device& device);

  /// The launch's number, for its faults.
  unsigned long long add(Describe describe);
  const Describe& describe(unsigned long long launch) const {
    return descriptions_.at(static_cast<std::size_t>(launch - first_launch_));
  }

 private:
  std::uint64_t number_;
  unsigned long long first_launch_;
  std::mutex mutex_;
  std::unordered_map<void*, int> class_of_;           // under mutex_
  std::unordered_map<int, std::vector<void*>> free_;  // under mutex_
  std::vector<void*> staging_;
  std::vector<Describe> descriptions_;
};

/// Launches that work outside of captures, and each capture, may number.
inline constexpr unsigned long long kLaunchesOfStore = 1ULL << 16;
/// Captures of one device that are kept at once.
inline constexpr unsigned long long kMostStores = 15;

/// The number of the capture that recorded the mark; 0: none did.
std::uint64_t capture_of(const Mark& mark);

}  // namespace tessera::kernels::TSR_CUDA
