// Device memory is the host's: one allocation each, so that the address sanitizer stands behind
// every one.
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <vector>

#include "emulation/device_state.h"

namespace tessera::emulation {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc's

cudaError_t allocate(void** memory, std::size_t bytes, int device) {
  *memory = nullptr;
  if (is_forbidden_by_capture()) return noted(cudaErrorStreamCaptureUnsupported);
  if (bytes == 0) return cudaSuccess;
  Runtime& runtime = Runtime::get();
  if (device >= 0) {
    const Runtime::Lock lock;
    std::size_t& used = runtime.devices[device].used_bytes;
    const std::size_t limit = runtime.device_bytes.load(std::memory_order_relaxed);
    if (bytes > limit || used > limit - bytes) return noted(cudaErrorMemoryAllocation);
    used += bytes;
  }
  void* made = nullptr;
  if (::posix_memalign(&made, kAlignment, bytes) != 0) made = nullptr;
  if (made != nullptr) std::memset(made, kPoison, bytes);
  const Runtime::Lock lock;
  if (made == nullptr) {
    if (device >= 0) runtime.devices[device].used_bytes -= bytes;
    return noted(cudaErrorMemoryAllocation);
  }
  runtime.blocks[static_cast<std::byte*>(made)] = {.bytes = bytes, .device = device};
  *memory = made;
  return cudaSuccess;
}

// Frees what `is_host` says, once no stream can use it any more.
cudaError_t release(void* memory, bool is_host) {
  if (memory == nullptr) return cudaSuccess;
  if (is_forbidden_by_capture()) return noted(cudaErrorStreamCaptureUnsupported);
  std::vector<CompletionRef> all;  // of streams that others may end meanwhile
  {
    const Runtime::Lock lock;
    Runtime& runtime = Runtime::get();
    const auto found = runtime.blocks.find(static_cast<std::byte*>(memory));
    if (found == runtime.blocks.end() || (found->second.device < 0) != is_host ||
        found->second.is_shared) {
      return noted(cudaErrorInvalidValue);
    }
    const Block block = found->second;
    runtime.blocks.erase(found);
    for (DeviceState& device : runtime.devices) {
      if (!is_host && &device != &runtime.devices[block.device]) continue;
      for (Stream* stream : device.streams) all.push_back(stream->mark());
    }
    if (!is_host) runtime.devices[block.device].used_bytes -= block.bytes;
  }
  const Hidden hidden;  // no order: what frees memory that others still use is at fault
  for (const CompletionRef& each : all) each->wait();
  std::free(memory);
  return cudaSuccess;
}

}  // namespace

cudaError_t note_shared_block(const std::byte* memory, std::size_t bytes, int device) {
  const Runtime::Lock lock;
  Runtime& runtime = Runtime::get();
  std::size_t& used = runtime.devices[device].used_bytes;
  const std::size_t limit = runtime.device_bytes.load(std::memory_order_relaxed);
  if (bytes > limit || used > limit - bytes) return noted(cudaErrorMemoryAllocation);
  used += bytes;
  runtime.blocks[memory] = {.bytes = bytes, .device = device, .is_shared = true};
  return cudaSuccess;
}

void forget_shared_block(const std::byte* memory) {
  const Runtime::Lock lock;
  Runtime& runtime = Runtime::get();
  const auto found = runtime.blocks.find(memory);
  runtime.devices[found->second.device].used_bytes -= found->second.bytes;
  runtime.blocks.erase(found);
}

void wait_for_streams(int device) {
  std::vector<CompletionRef> all;
  {
    const Runtime::Lock lock;
    for (Stream* stream : Runtime::get().devices[device].streams) all.push_back(stream->mark());
  }
  const Hidden hidden;  // no order, as of cudaFree()
  for (const CompletionRef& each : all) each->wait();
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const int device = current_device();
  if (device >= Runtime::get().num_devices.load(std::memory_order_relaxed)) {
    *memory = nullptr;
    return noted(cudaErrorNoDevice);
  }
  const cudaError_t fault = Runtime::get().devices[device].fault.load(std::memory_order_relaxed);
  if (fault != cudaSuccess) return noted(fault);
  return allocate(memory, bytes, device);
}
cudaError_t cudaFree(void* memory) { return release(memory, /*is_host=*/false); }
cudaError_t cudaMallocHost(void** memory, std::size_t bytes) { return allocate(memory, bytes, -1); }
cudaError_t cudaFreeHost(void* memory) { return release(memory, /*is_host=*/true); }

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Runtime::Lock lock;
  const Runtime& runtime = Runtime::get();
  *total_bytes = runtime.device_bytes.load(std::memory_order_relaxed);
  const std::size_t used = runtime.devices[current_device()].used_bytes;
  *free_bytes = *total_bytes > used ? *total_bytes - used : 0;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* memory) {
  const Runtime::Lock lock;
  const auto& blocks = Runtime::get().blocks;
  const auto* at = static_cast<const std::byte*>(memory);
  *attributes = {.type = cudaMemoryTypeUnregistered,
                 .device = -1,
                 .devicePointer = nullptr,
                 .hostPointer = const_cast<void*>(memory)};
  const auto after = blocks.upper_bound(at);
  if (after == blocks.begin()) return cudaSuccess;
  const auto& [begin, block] = *std::prev(after);
  if (at >= begin + block.bytes) return cudaSuccess;
  attributes->type = block.device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  attributes->device = block.device < 0 ? current_device() : block.device;
  attributes->devicePointer = const_cast<void*>(memory);
  if (block.device >= 0) attributes->hostPointer = nullptr;
  return cudaSuccess;
}

}  // namespace tessera::emulation
