// kernels/cuda/cuda_device.h: a device by CUDA's calls, the same for a card and for the emulation.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "kernels/array.h"
#include "kernels/cuda/launch.h"
#include "kernels/device.h"
#include "kernels/kernel_table.h"
#include "placement/status.h"

namespace tessera::kernels::TSR_CUDA {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(const Device& device);
  /// A user's own, which stays the user's.
  explicit CudaStream(cudaStream_t handle) noexcept : handle_(handle), is_ours_(false) {}
  ~CudaStream() override;
  cudaStream_t handle() const noexcept { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
  bool is_ours_ = true;
};

/// Throws what `error` means: ResourceExhausted for memory, else Internal; with the device, the
/// call, and what the device itself says of a kernel's fault.
void check(cudaError_t error, const Device& device, const char* call);

/// Makes the device current for this thread while it lives.
class Current {
 public:
  explicit Current(const Device& device);
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  int before_ = 0;
};

/// Where a kernel notes the lowest position at which it found something wrong.
struct FaultWord {
  unsigned long long* word;
  unsigned long long launch;  // earlier launches win

  __device__ void note(std::int64_t position) const {
    atomicMin(word, launch | static_cast<unsigned long long>(position));
  }
};

/// Work for which there are libraries (kernels/cuda/libraries.h).
enum class LibraryWork : std::uint8_t { kProduct, kGroupedProduct, kAttention, kKeyOrder };
/// How often a library did the work, and a kernel of ours in its place.
struct LibraryCalls {
  std::int64_t library = 0, plain = 0;
};
/// What the source of a library keeps with a device; null until it first does.
struct LibraryState {
  std::shared_ptr<void> kept;
  LibraryCalls calls;
};

class CaptureStore;  // cuda_capture.h

/// What is wrong at a position. Called on the host, once the kernel is done.
using Describe = std::function<Status(std::int64_t position)>;

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal);
  ~CudaDevice() override;
  /// For the next launch. `describe` may keep arrays alive until the faults are raised.
  FaultWord next_fault_word(Describe describe);
  void raise_faults() override;
  LibraryState& library(LibraryWork work) noexcept {
    return libraries_[static_cast<std::size_t>(work)];
  }
  std::shared_ptr<Allocator> make_allocator() override;
  std::shared_ptr<Allocator> make_pinned_allocator() override;
  Stream& compute() override { return compute_; }
  Stream& comm() override { return comm_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override;
  void upload(void* to, const void* from, std::size_t bytes, Stream& stream) override;
  void clear(void* to, std::size_t bytes, Stream& stream) override;
  Mark record(Stream& stream) override;
  void wait(Stream& stream, const Mark& mark) override;
  void reach(Device& peer) override;
  bool done(const Mark& mark) override;
  void synchronize(const Mark& mark) override;
  void begin_capture(const Mark& first) override;
  Mark close_capture() override;
  std::shared_ptr<CapturedWork> end_capture(std::span<const Mark> closed_by_others) override;
  void abandon_capture() noexcept override;
  bool is_capturing() const noexcept override { return capture_ != nullptr; }
  /// What is kept for the capture under way; null outside of one.
  const std::shared_ptr<CaptureStore>& capture() const noexcept { return capture_; }
  /// For a store that goes: its descriptions are not asked any more.
  void forget(const CaptureStore& store) noexcept;

 private:
  /// Pinned memory that a copy reads until its mark has come.
  struct Staging {
    void* memory = nullptr;
    std::size_t bytes = 0;
    Mark free;
  };
  Staging take_staging(std::size_t bytes);

  CudaStream compute_, comm_;
  std::mutex staging_mutex_;
  std::vector<Staging> staging_;                   // under staging_mutex_; those that no call holds
  unsigned long long* fault_word_ = nullptr;       // of the device
  unsigned long long* fault_word_here_ = nullptr;  // where it is read: pinned
  std::vector<Describe> descriptions_;             // by number of launch
  std::shared_ptr<CaptureStore> capture_;
  bool begins_capture_ = false;            // that one, which other devices may have joined
  std::vector<CaptureStore*> stores_;      // that captured work still uses; at places of their own
  std::array<LibraryState, 4> libraries_;  // by work
  std::mutex reached_mutex_;
  std::vector<int> reached_;  // under reached_mutex_; ordinals
};

/// The first element of a device's array, for its code.
template <class T>
T* device_data(const Array& array) noexcept {
  return reinterpret_cast<T*>(array.bytes());
}

/// The device of a kernel's context.
CudaDevice& device_of(KernelContext& ctx);
/// The element at row-major `position` of an array of integers, read from the device. Blocks.
std::int64_t integer_at(const Array& array, std::int64_t position);

/// Device code for every slot.
const KernelTable& device_kernels() noexcept;

/// The stream of a kernel's context, whose device this is.
cudaStream_t stream_of(KernelContext& ctx);

}  // namespace tessera::kernels::TSR_CUDA
