#include "emulation/device_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "emulation/control.h"

namespace tessera::emulation {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

Runtime& Runtime::get() {
  static Runtime& runtime =
      *new Runtime;  // streams may outlive what the process destroys at its end
  return runtime;
}

int current_device() { return device_of_thread; }

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t refusal(Stream* stream) {
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  const DeviceState& device = Runtime::get().devices[stream->device()];
  return noted(device.fault.load(std::memory_order_relaxed));
}

cudaError_t submit(Stream* stream, Operation operation) {
  DeviceState& device = Runtime::get().devices[stream->device()];
  Operation unless_faulty = [&device, operation = std::move(operation)](BlockRunner& runner) {
    if (device.fault.load(std::memory_order_relaxed) == cudaSuccess) operation(runner);
  };
  {
    const Runtime::Lock lock;
    if (stream->capture != nullptr) {
      stream->capture->run(stream->lane, std::move(unless_faulty));
      return cudaSuccess;
    }
  }
  stream->enqueue(std::move(unless_faulty));
  return cudaSuccess;
}

bool is_forbidden_by_capture() {
  const Runtime::Lock lock;
  const auto& captures = Runtime::get().captures;
  return std::any_of(captures.begin(), captures.end(),
                     [](const auto& each) { return each.second->binds_this_thread(); });
}

void set_device_count(int count) {
  Runtime::get().num_devices.store(std::clamp(count, 0, kMaxDevices), std::memory_order_relaxed);
}
void set_device_memory(std::size_t bytes) {
  Runtime::get().device_bytes.store(bytes, std::memory_order_relaxed);
}
void set_device_busy(int device, bool is_busy) {
  Runtime::get().devices[device].is_busy.store(is_busy, std::memory_order_relaxed);
}
void plant_fault(int device, std::int64_t number) {
  DeviceState& state = Runtime::get().devices[device];
  state.faulty_launch.store(state.launches.load(std::memory_order_relaxed) + number,
                            std::memory_order_relaxed);
}
std::int64_t launches(int device) {
  return Runtime::get().devices[device].launches.load(std::memory_order_relaxed);
}
std::string fault(int device) {
  const Runtime::Lock lock;
  return Runtime::get().devices[device].fault_text;
}

namespace {

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrorTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "an argument is not allowed"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of device memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "a launch of a shape that no device runs"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "the driver is too old, or there is none"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "the device is busy: another process has it for itself"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "there is no device"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "there is no device of this number"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle",
     "a stream or event that is none, or of another device"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not done yet"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an access to memory that is not the device's"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "access to this peer was enabled before"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "a kernel ended by a fault"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "not allowed while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "the capture was broken off by an earlier error"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "the capture began on another stream, or none began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "the captured stream does not wait for work of another that it forked"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "a captured stream may not depend on what is not captured"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "an event of a capture is not to be waited for"},
};

const ErrorText* text_of(cudaError_t error) {
  const auto* found = std::find_if(std::begin(kErrorTexts), std::end(kErrorTexts),
                                   [error](const ErrorText& each) { return each.error == error; });
  return found == std::end(kErrorTexts) ? nullptr : found;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* found = text_of(error);
  return found == nullptr ? "unrecognized error code" : found->name;
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* found = text_of(error);
  return found == nullptr ? "unrecognized error code" : found->text;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() {
  const cudaError_t fault =
      Runtime::get().devices[current_device()].fault.load(std::memory_order_relaxed);
  return fault != cudaSuccess ? fault : last_error;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = Runtime::get().num_devices.load(std::memory_order_relaxed);
  return noted(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) return error;
  if (device < 0 || device >= count) return noted(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Runtime& runtime = Runtime::get();
  if (device < 0 || device >= runtime.num_devices.load(std::memory_order_relaxed)) {
    return noted(cudaErrorInvalidDevice);
  }
  *properties = {.name = "emulated device",
                 .totalGlobalMem = runtime.device_bytes.load(std::memory_order_relaxed),
                 .sharedMemPerBlock = std::size_t{48} << 10,
                 .sharedMemPerBlockOptin = kMaxSharedBytes,
                 .warpSize = kWarpSize,
                 .maxThreadsPerBlock = kMaxBlockThreads,
                 .major = 9,
                 .minor = 0,
                 .multiProcessorCount = 4};
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (is_forbidden_by_capture()) return noted(cudaErrorStreamCaptureUnsupported);
  DeviceState& device = Runtime::get().devices[current_device()];
  std::vector<CompletionRef> all;  // of streams that others may end meanwhile
  {
    const Runtime::Lock lock;
    for (Stream* stream : device.streams) all.push_back(stream->mark());
  }
  for (const CompletionRef& each : all) each->wait();
  return noted(device.fault.load(std::memory_order_relaxed));
}

cudaError_t cudaDeviceReset() {
  const Runtime::Lock lock;
  DeviceState& device = Runtime::get().devices[current_device()];
  device.fault_text.clear();
  device.fault.store(cudaSuccess, std::memory_order_relaxed);
  last_error = cudaSuccess;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  const int count = Runtime::get().num_devices.load(std::memory_order_relaxed);
  if (device < 0 || device >= count || peer < 0 || peer >= count)
    return noted(cudaErrorInvalidDevice);
  *can = device == peer ? 0 : 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (flags != 0) return noted(cudaErrorInvalidValue);
  int can = 0;
  const cudaError_t error = cudaDeviceCanAccessPeer(&can, current_device(), peer);
  if (error != cudaSuccess) return error;
  if (can == 0) return noted(cudaErrorInvalidDevice);
  const Runtime::Lock lock;
  const bool is_new = Runtime::get().peers.emplace(current_device(), peer).second;
  return noted(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

}  // namespace tessera::emulation
