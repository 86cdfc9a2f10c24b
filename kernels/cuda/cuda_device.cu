#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernels/cuda/cuda_capture.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda_device.h"
#include "kernels/memory_use.h"
#include "placement/status.h"
#ifndef __CUDACC__
#include "emulation/control.h"
#endif

namespace tessera {
namespace kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr DeviceId::Kind kKind = DeviceId::Kind::kCuda;
std::string fault_of(int) { return {}; }
#else
constexpr DeviceId::Kind kKind = DeviceId::Kind::kEmulated;
std::string fault_of(int ordinal) {
  const std::string fault = emulation::fault(ordinal);
  return fault.empty() ? "" : " (" + fault + ")";
}
#endif

class MarkState final : public Mark::State {
 public:
  MarkState(const Device& device, std::uint64_t capture) : capture_(capture) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), device, "cudaEventCreate");
  }
  ~MarkState() override { static_cast<void>(cudaEventDestroy(event_)); }
  cudaEvent_t event() const noexcept { return event_; }
  std::uint64_t capture() const noexcept { return capture_; }

 private:
  cudaEvent_t event_ = nullptr;
  std::uint64_t capture_;  // that recorded it; 0: none
};

/// Whether another process has the device, or it is of no use to this one any more.
bool is_lost(cudaError_t error) {
  return error == cudaErrorDevicesUnavailable || error == cudaErrorIllegalAddress ||
         error == cudaErrorLaunchFailure;
}

cudaEvent_t event_of(const Mark& mark) {
  return static_cast<const MarkState&>(*mark.state()).event();
}
cudaStream_t handle_of(Stream& stream) { return static_cast<CudaStream&>(stream).handle(); }

}  // namespace

std::uint64_t capture_of(const Mark& mark) {
  return static_cast<const MarkState&>(*mark.state()).capture();
}

void check(cudaError_t error, const Device& device, const char* call) {
  if (error == cudaSuccess) return;
  const std::string text = to_string(device.id()) + ": " + call + ": " + cudaGetErrorString(error) +
                           fault_of(device.id().ordinal);
  if (is_lost(error)) throw Error(unavailable(text));
  if (error == cudaErrorMemoryAllocation) throw Error(absl::ResourceExhaustedError(text));
  throw Error(internal_error(text));
}

namespace {
constexpr int kUnchanged = -1;
}  // namespace

Current::Current(const Device& device) {
  static_cast<void>(cudaGetDevice(&before_));
  if (before_ == device.id().ordinal) {
    before_ = kUnchanged;
  } else {
    check(cudaSetDevice(device.id().ordinal), device, "cudaSetDevice");
  }
}
// Setting costs more than asking: a launch pays for neither it nor its return.
Current::~Current() {
  if (before_ != kUnchanged) static_cast<void>(cudaSetDevice(before_));
}

CudaStream::CudaStream(const Device& device) {
  const Current current(device);
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), device, "cudaStreamCreate");
}
CudaStream::~CudaStream() {
  if (is_ours_) static_cast<void>(cudaStreamDestroy(handle_));
}

CudaDevice::CudaDevice(int ordinal)
    : Device({.kind = kKind, .ordinal = ordinal}, device_kernels()), compute_(*this), comm_(*this) {
  const Current current(*this);
  check(cudaMalloc(&fault_word_, sizeof(*fault_word_)), *this, "cudaMalloc");
  check(cudaMallocHost(&fault_word_here_, sizeof(*fault_word_here_)), *this, "cudaMallocHost");
  check(cudaMemsetAsync(fault_word_, 0xff, sizeof(*fault_word_), compute_.handle()), *this,
        "cudaMemsetAsync");
}

CudaDevice::~CudaDevice() {
  for (const Staging& each : staging_) static_cast<void>(cudaFreeHost(each.memory));
  static_cast<void>(cudaFreeHost(fault_word_here_));
  static_cast<void>(cudaFree(fault_word_));
}

namespace {

// A fault is one number: the launch above, the position below.
constexpr int kPositionBits = 44;
constexpr std::size_t kMostLaunches = 4096;  // that are remembered at once
static_assert(kMostLaunches <= kLaunchesOfStore);
static_assert(kMostStores * kLaunchesOfStore < 1ULL << (64 - kPositionBits));
constexpr unsigned long long kNoFault = ~0ULL;

}  // namespace

FaultWord CudaDevice::next_fault_word(Describe describe) {
  if (capture_ != nullptr) {
    return {.word = fault_word_, .launch = capture_->add(std::move(describe)) << kPositionBits};
  }
  if (descriptions_.size() >= kMostLaunches) raise_faults();
  descriptions_.push_back(std::move(describe));
  return {.word = fault_word_,
          .launch = static_cast<unsigned long long>(descriptions_.size() - 1) << kPositionBits};
}

void CudaDevice::raise_faults() {
  if (capture_ != nullptr) throw Error(read_while_capturing(*this));
  const Current current(*this);
  const cudaStream_t stream = compute_.handle();
  const std::size_t bytes = sizeof(*fault_word_);
  check(cudaMemcpyAsync(fault_word_here_, fault_word_, bytes, cudaMemcpyDeviceToHost, stream),
        *this, "cudaMemcpyAsync");
  check(cudaMemsetAsync(fault_word_, 0xff, bytes, stream), *this, "cudaMemsetAsync");
  check(cudaStreamSynchronize(stream), *this, "cudaStreamSynchronize");
  const std::vector<Describe> descriptions = std::exchange(descriptions_, {});
  const unsigned long long fault = *fault_word_here_;
  if (fault == kNoFault) return;
  const auto position = static_cast<std::int64_t>(fault & ((1ULL << kPositionBits) - 1));
  const unsigned long long launch = fault >> kPositionBits;
  if (launch < kLaunchesOfStore) throw Error(descriptions.at(launch)(position));
  throw Error(stores_.at(launch / kLaunchesOfStore - 1)->describe(launch)(position));
}

CudaDevice& device_of(KernelContext& ctx) { return static_cast<CudaDevice&>(*ctx.device); }

std::int64_t integer_at(const Array& array, std::int64_t position) {
  std::int64_t offset = 0;
  for (int d = array.ndim() - 1; d >= 0; --d) {
    offset += position % array.size(d) * array.strides()[static_cast<std::size_t>(d)];
    position /= array.size(d);
  }
  const std::int64_t bytes = size_of(array.dtype());
  std::int64_t value = 0;
  Device& device = array.device();
  device.copy(&value, array.bytes() + offset * bytes, static_cast<std::size_t>(bytes),
              device.compute());
  device.synchronize(device.record(device.compute()));
  if (bytes == 4) return static_cast<std::int32_t>(value);
  return value;
}

void CudaDevice::copy(void* to, const void* from, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, handle_of(stream)), *this,
        "cudaMemcpyAsync");
}

CudaDevice::Staging CudaDevice::take_staging(std::size_t bytes) {
  {
    const std::lock_guard lock(staging_mutex_);
    for (Staging& each : staging_) {
      if (each.bytes < bytes || !done(each.free)) continue;
      std::swap(each, staging_.back());
      const Staging taken = staging_.back();
      staging_.pop_back();
      return taken;
    }
  }
  constexpr std::size_t kLeast = std::size_t{64} << 10;
  Staging made{.memory = nullptr, .bytes = std::bit_ceil(std::max(bytes, kLeast)), .free = {}};
  check(cudaMallocHost(&made.memory, made.bytes), *this, "cudaMallocHost");
  return made;
}

void CudaDevice::upload(void* to, const void* from, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  if (capture_ != nullptr) {
    void* const kept = capture_->staging(bytes, *this);
    std::memcpy(kept, from, bytes);
    return copy(to, kept, bytes, stream);
  }
  Staging staging = take_staging(bytes);
  std::memcpy(staging.memory, from, bytes);
  copy(to, staging.memory, bytes, stream);
  staging.free = record(stream);
  const std::lock_guard lock(staging_mutex_);
  staging_.push_back(std::move(staging));
}

void CudaDevice::clear(void* to, std::size_t bytes, Stream& stream) {
  if (bytes == 0) return;
  check(cudaMemsetAsync(to, 0, bytes, handle_of(stream)), *this, "cudaMemsetAsync");
}

Mark CudaDevice::record(Stream& stream) {
  const Current current(*this);
  auto state = std::make_shared<MarkState>(*this, capture_ == nullptr ? 0 : capture_->number());
  check(cudaEventRecord(state->event(), handle_of(stream)), *this, "cudaEventRecord");
  return Mark(std::move(state));
}

// Marks of before a capture have come when it begins, and those of one that has ended lie behind
// what the compute stream was given of it.
void CudaDevice::wait(Stream& stream, const Mark& mark) {
  if (mark.state() == nullptr) return;
  const std::uint64_t capture = capture_of(mark);
  if (capture == 0 && capture_ != nullptr) {
    check(cudaEventSynchronize(event_of(mark)), *this, "cudaEventSynchronize");
    return;
  }
  if (capture != 0 && (capture_ == nullptr || capture_->number() != capture)) return;
  check(cudaStreamWaitEvent(handle_of(stream), event_of(mark), 0), *this, "cudaStreamWaitEvent");
}

void CudaDevice::reach(Device& peer) {
  const int ordinal = peer.id().ordinal;
  const std::lock_guard lock(reached_mutex_);
  if (ordinal == id().ordinal || std::ranges::find(reached_, ordinal) != reached_.end()) return;
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, id().ordinal, ordinal), *this, "cudaDeviceCanAccessPeer");
  if (can == 0) {
    throw Error(unimplemented(to_string(id()) + " does not reach the memory of " +
                              to_string(peer.id()) + ": the machine does not connect them"));
  }
  const Current current(*this);
  const cudaError_t error = cudaDeviceEnablePeerAccess(ordinal, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {  // by another device of this card
    static_cast<void>(cudaGetLastError());
  } else {
    check(error, *this, "cudaDeviceEnablePeerAccess");
  }
  reached_.push_back(ordinal);
}

bool CudaDevice::done(const Mark& mark) {
  if (mark.state() == nullptr || capture_of(mark) != 0) return true;
  const cudaError_t error = cudaEventQuery(event_of(mark));
  if (error == cudaErrorNotReady) return false;
  check(error, *this, "cudaEventQuery");
  return true;
}

void CudaDevice::synchronize(const Mark& mark) {
  if (capture_ != nullptr) throw Error(read_while_capturing(*this));
  if (mark.state() == nullptr || capture_of(mark) != 0) return;
  check(cudaEventSynchronize(event_of(mark)), *this, "cudaEventSynchronize");
}

cudaStream_t stream_of(KernelContext& ctx) { return handle_of(ctx.device->compute()); }

namespace {

/// Blocks of the host, one by one: a pool lies over it.
class PinnedBlocks final : public Allocator {
 public:
  explicit PinnedBlocks(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  void* allocate(std::size_t bytes) override {
    const Current current(*device_);
    void* block = nullptr;
    check(cudaMallocHost(&block, bytes), *device_, "cudaMallocHost");
    return block;
  }
  void release(void* data, std::size_t) noexcept override { static_cast<void>(cudaFreeHost(data)); }

 private:
  std::shared_ptr<Device> device_;
};

/// Memory by power of two and a half, kept for the compute stream: what it is given next comes
/// after all that used the block before.
class DeviceAllocator final : public Allocator {
 public:
  explicit DeviceAllocator(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  ~DeviceAllocator() override {
    for (const auto& blocks : free_) {
      for (void* block : blocks) static_cast<void>(cudaFree(block));
    }
  }

  void* allocate(std::size_t bytes) override {
    const int size_class = class_of(bytes);
    const std::shared_ptr<CaptureStore>& capture = device_->capture();
    if (capture != nullptr) {
      if (void* block = capture->take(size_class)) return block;
    } else {
      const std::lock_guard lock(mutex_);
      std::vector<void*>& blocks = free_[static_cast<std::size_t>(size_class)];
      if (!blocks.empty()) {
        void* block = blocks.back();
        blocks.pop_back();
        return block;
      }
    }
    const Current current(*device_);
    void* block = nullptr;
    cudaError_t error = cudaMalloc(&block, bytes_of(size_class));
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      give_back();
      error = cudaMalloc(&block, bytes_of(size_class));
    }
    if (error == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      std::size_t free_bytes = 0, total_bytes = 0;
      static_cast<void>(cudaMemGetInfo(&free_bytes, &total_bytes));
      throw Error(absl::ResourceExhaustedError(
          to_string(device_->id()) + ": no memory for a buffer of " + std::to_string(bytes) +
          " bytes: " + std::to_string(free_bytes) + " of " + std::to_string(total_bytes) +
          " are free"));
    }
    check(error, *device_, "cudaMalloc");
    if (capture != nullptr) {
      capture->add(block, size_class);
      const std::lock_guard lock(mutex_);
      captured_[block] = capture;
    }
    return block;
  }

  void release(void* data, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    if (const auto found = captured_.empty() ? captured_.end() : captured_.find(data);
        found != captured_.end()) {
      if (const std::shared_ptr<CaptureStore> store = found->second.lock()) {
        return store->give(data);
      }
      captured_.erase(found);
    }
    free_[static_cast<std::size_t>(class_of(bytes))].push_back(data);
  }
  Device& device() const noexcept override { return *device_; }

 private:
  // Classes 2k and 2k + 1 hold 256·2^k and 384·2^k bytes.
  static constexpr std::size_t kLeast = 256;
  static std::size_t bytes_of(int size_class) {
    return (size_class % 2 == 0 ? kLeast : kLeast * 3 / 2) << (size_class / 2);
  }
  static int class_of(std::size_t bytes) {
    if (bytes <= kLeast) return 0;
    const int power =
        static_cast<int>(std::bit_width((bytes - 1) / kLeast)) - 1;  // 256·2^power < bytes
    const int size_class = 2 * power + (bytes <= bytes_of(2 * power + 1) ? 1 : 2);
    return std::min(size_class, kClasses - 1);
  }

  void give_back() {
    const std::lock_guard lock(mutex_);
    for (auto& blocks : free_) {
      for (void* block : blocks) static_cast<void>(cudaFree(block));
      blocks.clear();
    }
  }

  static constexpr int kClasses = 80;
  std::shared_ptr<CudaDevice> device_;
  std::mutex mutex_;
  std::array<std::vector<void*>, kClasses> free_;
  std::unordered_map<void*, std::weak_ptr<CaptureStore>> captured_;  // blocks that captures took
};

}  // namespace

std::shared_ptr<Allocator> CudaDevice::make_allocator() {
  return std::make_shared<DeviceAllocator>(
      std::static_pointer_cast<CudaDevice>(shared_from_this()));
}

std::shared_ptr<Allocator> CudaDevice::make_pinned_allocator() {
  return make_pool_over(std::make_shared<PinnedBlocks>(shared_from_this()));
}

namespace {

int num_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

StatusOr<std::shared_ptr<Device>> make_device(int ordinal) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess && error != cudaErrorNoDevice) {
    return unavailable(std::string("no device: ") + cudaGetErrorString(error));
  }
  if (ordinal < 0 || ordinal >= count) {
    return not_found(to_string({.kind = kKind, .ordinal = ordinal}) +
                     ": there is no such device; there are " + std::to_string(count) + ", from 0");
  }
  try {
    return std::make_shared<CudaDevice>(ordinal);
  } catch (const Error& failed) {
    return failed.status();
  }
}

}  // namespace
}  // namespace kernels::TSR_CUDA

#ifdef __CUDACC__
StatusOr<std::shared_ptr<Device>> make_cuda_device(int ordinal) {
  return kernels::TSR_CUDA::make_device(ordinal);
}
int num_cuda_devices() { return kernels::TSR_CUDA::num_devices(); }
#else
StatusOr<std::shared_ptr<Device>> make_emulated_device(int ordinal) {
  return kernels::TSR_CUDA::make_device(ordinal);
}
int num_emulated_devices() { return kernels::TSR_CUDA::num_devices(); }
#endif

}  // namespace tessera
