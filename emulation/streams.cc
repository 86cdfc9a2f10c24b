// Streams, events, launches and copies by CUDA's names.
#include <cstring>
#include <utility>

#include "emulation/device_state.h"

namespace tessera::emulation {

class Event {
 public:
  int device = 0;
  bool is_timed = true;
  CompletionRef completion;   // of the last record outside of captures
  std::uint64_t capture = 0;  // else the number of the capture that recorded it last
  Capture::Moment moment;     // there
};

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  *stream = nullptr;
  if (flags != cudaStreamNonBlocking) return noted(cudaErrorNotSupported);
  const int device = current_device();
  if (device >= Runtime::get().num_devices.load(std::memory_order_relaxed))
    return noted(cudaErrorNoDevice);
  if (Runtime::get().devices[device].is_busy.load(std::memory_order_relaxed))
    return noted(cudaErrorDevicesUnavailable);
  auto* made = new Stream(device);
  const Runtime::Lock lock;
  Runtime::get().devices[device].streams.insert(made);
  *stream = made;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  {
    const Runtime::Lock lock;
    if (stream->capture != nullptr) return noted(cudaErrorStreamCaptureUnsupported);
    Runtime::get().devices[stream->device()].streams.erase(stream);
  }
  delete stream;
  return cudaSuccess;
}

namespace {

// What waits for a stream breaks off the capture that it is in.
cudaError_t refusal_to_wait(Stream* stream) {
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  const Runtime::Lock lock;
  if (stream->capture == nullptr) return cudaSuccess;
  stream->capture->break_off();
  return noted(cudaErrorStreamCaptureUnsupported);
}

}  // namespace

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = refusal_to_wait(stream); error != cudaSuccess) return error;
  stream->mark()->wait();
  return refusal(stream);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = refusal_to_wait(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  return stream->is_idle() ? refusal(stream) : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*call)(void*), void* argument) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  return submit(stream, [call, argument](BlockRunner&) { call(argument); });
}

cudaError_t call_on(cudaStream_t stream, std::function<void()> work) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  return submit(stream, [work = std::move(work)](BlockRunner&) { work(); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Event;
  (*event)->device = current_device();
  (*event)->is_timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return noted(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  if (event == nullptr || event->device != stream->device())
    return noted(cudaErrorInvalidResourceHandle);
  {
    const Runtime::Lock lock;
    if (stream->capture != nullptr) {
      event->capture = stream->capture->id();
      event->moment = stream->capture->record(stream->lane);
      return cudaSuccess;
    }
    event->capture = 0;
  }
  event->completion = stream->mark();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (event == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (event->capture != 0) return noted(cudaErrorCapturedEvent);
  const DeviceState& device = Runtime::get().devices[event->device];
  if (event->completion && !event->completion->done()) return cudaErrorNotReady;
  return noted(device.fault.load(std::memory_order_relaxed));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return noted(cudaErrorInvalidResourceHandle);
  if (event->capture != 0) return noted(cudaErrorCapturedEvent);
  if (event->completion) event->completion->wait();
  return noted(Runtime::get().devices[event->device].fault.load(std::memory_order_relaxed));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (Event* event : {begin, end}) {
    const bool is_recorded =
        event != nullptr && event->is_timed && event->completion && event->capture == 0;
    if (!is_recorded) return noted(cudaErrorInvalidResourceHandle);
    if (!event->completion->done()) return noted(cudaErrorNotReady);
  }
  *milliseconds =
      static_cast<float>((end->completion->seconds() - begin->completion->seconds()) * 1e3);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (flags != 0 || event == nullptr) return noted(cudaErrorInvalidValue);
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  {
    const Runtime::Lock lock;
    auto& captures = Runtime::get().captures;
    const auto found = captures.find(event->capture);
    Capture* of_event = found == captures.end() ? nullptr : found->second.get();
    if (event->capture != 0 || stream->capture != nullptr) {
      const bool is_of_one =
          of_event != nullptr && (stream->capture == nullptr || stream->capture == of_event);
      if (is_of_one) {
        of_event->wait(*stream, event->moment);
        return cudaSuccess;
      }
      if (stream->capture != nullptr) stream->capture->break_off();
      return noted(cudaErrorStreamCaptureIsolation);
    }
  }
  if (event->completion) stream->wait_for(event->completion);
  return cudaSuccess;
}

cudaError_t launch_on(cudaStream_t stream, const LaunchShape& shape, const char* name,
                      std::function<void()> body) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  if (stream->device() != current_device()) return noted(cudaErrorInvalidResourceHandle);
  const auto is_in = [](unsigned size, unsigned limit) { return size > 0 && size <= limit; };
  const dim3 &grid = shape.grid, &block = shape.block;
  const bool is_allowed = is_in(grid.x, 0x7fffffffu) && is_in(grid.y, 65535) &&
                          is_in(grid.z, 65535) && is_in(block.x, kMaxBlockThreads) &&
                          is_in(block.y, kMaxBlockThreads) && is_in(block.z, 64) &&
                          std::size_t{block.x} * block.y * block.z <= kMaxBlockThreads &&
                          shape.shared_bytes <= kMaxSharedBytes;
  if (!is_allowed) return noted(cudaErrorInvalidConfiguration);
  DeviceState& device = Runtime::get().devices[stream->device()];
  return submit(stream, [&device, shape, name, body = std::move(body)](BlockRunner& runner) {
    const std::int64_t number = 1 + device.launches.fetch_add(1, std::memory_order_relaxed);
    const auto call = [](void* kernel) { (*static_cast<const std::function<void()>*>(kernel))(); };
    const char* const what =
        number == device.faulty_launch.load(std::memory_order_relaxed)
            ? "a fault that was planted"
            : runner.run(shape, call, const_cast<std::function<void()>*>(&body));
    if (what == nullptr) return;
    const Runtime::Lock lock;
    if (device.fault_text.empty()) device.fault_text = std::string("kernel ") + name + ", " + what;
    device.fault.store(cudaErrorLaunchFailure, std::memory_order_relaxed);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (is_forbidden_by_capture()) return noted(cudaErrorStreamCaptureUnsupported);
  const cudaError_t fault =
      Runtime::get().devices[current_device()].fault.load(std::memory_order_relaxed);
  if (fault != cudaSuccess) return noted(fault);
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  return submit(stream, [=](BlockRunner&) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  const int count = Runtime::get().num_devices.load(std::memory_order_relaxed);
  for (const int device : {to_device, from_device}) {
    if (device < 0 || device >= count) return noted(cudaErrorInvalidDevice);
  }
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t row_bytes, std::size_t rows,
                              cudaMemcpyKind, cudaStream_t stream) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  if (row_bytes > to_pitch || row_bytes > from_pitch) return noted(cudaErrorInvalidValue);
  return submit(stream, [=](BlockRunner&) {
    for (std::size_t row = 0; row < rows && row_bytes > 0; ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                  static_cast<const std::byte*>(from) + row * from_pitch, row_bytes);
    }
  });
}

cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  return submit(stream, [=](BlockRunner&) {
    if (bytes > 0) std::memset(memory, byte, bytes);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  const Runtime::Lock lock;
  if (stream->capture != nullptr) return noted(cudaErrorInvalidValue);
  auto capture = std::make_unique<Capture>(*stream, mode);
  const std::uint64_t id = capture->id();
  Runtime::get().captures[id] = std::move(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  const Runtime::Lock lock;
  Capture* capture = stream->capture;
  if (capture == nullptr || !capture->is_origin(*stream))
    return noted(cudaErrorStreamCaptureUnmatched);
  capture->release();
  const auto node = Runtime::get().captures.extract(capture->id());
  if (capture->is_broken()) return noted(cudaErrorStreamCaptureInvalidated);
  if (!capture->is_joined()) return noted(cudaErrorStreamCaptureUnjoined);
  *graph = new Graph(capture->take_graph());
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
  const Runtime::Lock lock;
  *status = stream->capture == nullptr     ? cudaStreamCaptureStatusNone
            : stream->capture->is_broken() ? cudaStreamCaptureStatusInvalidated
                                           : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  *exec = nullptr;
  if (graph == nullptr || flags != 0) return noted(cudaErrorInvalidValue);
  *exec = new GraphExec(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (exec == nullptr) return noted(cudaErrorInvalidValue);
  if (const cudaError_t error = refusal(stream); error != cudaSuccess) return error;
  if (const cudaError_t error = refusal_to_wait(stream); error != cudaSuccess) return error;
  exec->launch(*stream);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

}  // namespace tessera::emulation
