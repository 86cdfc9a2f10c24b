// kernels/cuda/cuda_device.h: a device by CUDA's calls, the same for a card and for the emulation.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <mutex>
#include <vector>

#include "kernels/array.h"
#include "kernels/cuda/launch.h"
#include "kernels/device.h"
#include "kernels/kernel_table.h"

namespace tessera::kernels::TSR_CUDA {

class CudaStream final : public Stream {
 public:
  explicit CudaStream(const Device& device);
  ~CudaStream() override;
  cudaStream_t handle() const noexcept { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
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

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal);
  std::shared_ptr<Allocator> make_allocator() override;
  Stream& compute() override { return compute_; }
  Stream& comm() override { return comm_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override;
  Mark record(Stream& stream) override;
  void wait(Stream& stream, const Mark& mark) override;
  bool done(const Mark& mark) override;
  void synchronize(const Mark& mark) override;

 private:
  CudaStream compute_, comm_;
};

/// The slots that device code fills so far.
const KernelTable& device_kernels() noexcept;

/// The stream of a kernel's context, whose device this is.
cudaStream_t stream_of(KernelContext& ctx);

}  // namespace tessera::kernels::TSR_CUDA
