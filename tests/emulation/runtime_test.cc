// The emulated runtime against what CUDA says of its streams, graphs, errors and memory.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "emulation/control.h"
#include "tests/emulation/device_memory.h"
#include "tests/emulation/samples.h"

namespace tessera::testing {
namespace {

using std::chrono::milliseconds;

void sleep_on_stream(cudaStream_t stream, milliseconds time) {
  static milliseconds slept;
  slept = time;
  REQUIRE(cudaLaunchHostFunc(
              stream,
              [](void* at) { std::this_thread::sleep_for(*static_cast<milliseconds*>(at)); },
              &slept) == cudaSuccess);
}

}  // namespace

TEST_CASE("a stream does one thing after another; an event orders two streams",
          "[emulation][streams]") {
  const TestStream first, second;
  const TestEvent slept(cudaEventDefault), done(cudaEventDefault);
  const DeviceArray<float> x(std::vector<float>{1.0f}), y(1);
  REQUIRE(cudaEventQuery(slept) == cudaSuccess);  // never recorded: nothing to wait for
  sleep_on_stream(first, milliseconds(60));
  REQUIRE(cudaEventRecord(slept, first) == cudaSuccess);
  CHECK(cudaEventQuery(slept) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(first) == cudaErrorNotReady);
  CHECK(cudaStreamQuery(second) == cudaSuccess);
  REQUIRE(scale(x.get(), x.get(), 1, 2.0f, first) == cudaSuccess);
  REQUIRE(cudaEventRecord(done, first) == cudaSuccess);
  float passed = 0.0f;
  CHECK(cudaEventElapsedTime(&passed, slept, done) == cudaErrorNotReady);
  REQUIRE(cudaStreamWaitEvent(second, done) == cudaSuccess);
  REQUIRE(scale(x.get(), y.get(), 1, 10.0f, second) == cudaSuccess);
  REQUIRE(second.finish() == cudaSuccess);
  CHECK(y.values()[0] == 31.0f);
  CHECK(cudaEventSynchronize(done) == cudaSuccess);
  CHECK(cudaStreamQuery(first) == cudaSuccess);
  CHECK(cudaEventElapsedTime(&passed, slept, done) == cudaSuccess);
  CHECK(passed >= 0.0f);
}

TEST_CASE("who has waited for a stream or for its last event finds it idle",
          "[emulation][streams]") {
  const TestStream stream;
  const TestEvent last(cudaEventDefault);
  int busy = 0;
  for (int i = 0; i < 4000; ++i) {
    REQUIRE(cudaEventRecord(last, stream) == cudaSuccess);
    REQUIRE((i % 2 == 0 ? cudaEventSynchronize(last) : cudaStreamSynchronize(stream)) ==
            cudaSuccess);
    busy += cudaStreamQuery(stream) == cudaSuccess ? 0 : 1;
  }
  CHECK(busy == 0);
}

TEST_CASE("calls of the host, copies and fills take their turn", "[emulation][streams]") {
  const TestStream stream;
  const DeviceArray<int> x(12), y(12);
  std::vector<int> got(12, -1);
  std::vector<int> order;
  const auto note = [](void* at) { static_cast<std::vector<int>*>(at)->push_back(1); };
  REQUIRE(cudaLaunchHostFunc(stream, note, &order) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(x.get(), 1, 12 * sizeof(int), stream) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(y.get(), x.get(), 12 * sizeof(int), cudaMemcpyDeviceToDevice, stream) ==
          cudaSuccess);
  REQUIRE(cudaMemsetAsync(x.get(), 0, 12 * sizeof(int), stream) == cudaSuccess);
  // Rows of 2 of 3 from y into rows of 4 of x.
  REQUIRE(cudaMemcpy2DAsync(x.get(), 16, y.get(), 12, 8, 3, cudaMemcpyDeviceToDevice, stream) ==
          cudaSuccess);
  REQUIRE(cudaMemcpyAsync(got.data(), x.get(), 12 * sizeof(int), cudaMemcpyDeviceToHost, stream) ==
          cudaSuccess);
  REQUIRE(cudaLaunchHostFunc(stream, note, &order) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  const int one = 0x01010101;
  CHECK(got == std::vector<int>{one, one, 0, 0, one, one, 0, 0, one, one, 0, 0});
  CHECK(order.size() == 2);
  CHECK(cudaMemcpy2DAsync(x.get(), 4, y.get(), 12, 8, 3, cudaMemcpyDeviceToDevice, stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyPeerAsync(x.get(), 0, y.get(), 999, 4, stream) == cudaErrorInvalidDevice);
  CHECK(cudaMemcpyPeerAsync(x.get(), 0, y.get(), 0, 48, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(x.values() == std::vector<int>(12, one));
}

TEST_CASE("a graph does again what was captured, with what its memory holds then",
          "[emulation][graphs]") {
  const TestStream stream, branch;
  const TestEvent begun, joined;
  const DeviceArray<float> x(std::vector<float>{1.0f, 2.0f}), y(2), z(2);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaStreamIsCapturing(stream, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  REQUIRE(scale(x.get(), x.get(), 2, 2.0f, stream) == cudaSuccess);
  REQUIRE(cudaEventRecord(begun, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(branch, begun) == cudaSuccess);
  REQUIRE(scale(x.get(), y.get(), 2, 10.0f, branch) == cudaSuccess);
  REQUIRE(cudaEventRecord(joined, branch) == cudaSuccess);
  REQUIRE(scale(x.get(), z.get(), 2, 100.0f, stream) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(stream, joined) == cudaSuccess);
  CHECK(cudaEventQuery(joined) == cudaErrorCapturedEvent);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(x.values() == std::vector<float>{1.0f, 2.0f});  // nothing was done yet
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  const std::int64_t before = emulation::launches(0);
  for (int launch = 0; launch < 3; ++launch) REQUIRE(cudaGraphLaunch(exec, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(emulation::launches(0) - before == 9);
  CHECK(x.values() == std::vector<float>{15.0f, 23.0f});
  CHECK(y.values() == std::vector<float>{151.0f, 231.0f});
  CHECK(z.values() == std::vector<float>{1501.0f, 2301.0f});
  // Another stream's launch comes after those.
  REQUIRE(cudaGraphLaunch(exec, branch) == cudaSuccess);
  REQUIRE(branch.finish() == cudaSuccess);
  CHECK(x.values() == std::vector<float>{31.0f, 47.0f});
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("what a capture may not hold breaks it off, and the stream goes on",
          "[emulation][graphs]") {
  const TestStream stream, other;
  const TestEvent event, outside;
  const DeviceArray<float> x(std::vector<float>{1.0f});
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnmatched);
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaErrorInvalidValue);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorStreamCaptureUnsupported);

  SECTION("a wait of the host") {
    CHECK(stream.finish() == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("an event from outside") {
    CHECK(cudaStreamWaitEvent(stream, outside) == cudaErrorStreamCaptureIsolation);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("a branch that nothing waits for") {
    REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(other, event) == cudaSuccess);
    REQUIRE(scale(x.get(), x.get(), 1, 2.0f, other) == cudaSuccess);
    CHECK(cudaStreamEndCapture(other, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  CHECK(graph == nullptr);
  cudaGetLastError();
  REQUIRE(scale(x.get(), x.get(), 1, 2.0f, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(x.values()[0] == 3.0f);
}

TEST_CASE("a kernel's fault shows later, stays, and names the thread", "[emulation][errors]") {
  const TestStream stream;
  DeviceArray<int> out(96);
  struct Fault {
    cudaError_t (*launch)(int*, cudaStream_t);
    const char* text;
  };
  const Fault fault =
      GENERATE(Fault{trap, "trap_kernel, thread (5, 0, 0) of block (1, 0, 0): __trap()"},
               Fault{wrong_mask,
                     "wrong_mask_kernel, thread (0, 0, 0) of block (0, 0, 0): a lane that is not "
                     "in the mask it gives"},
               Fault{stuck_at_barrier,
                     "stuck_kernel, thread (0, 0, 0) of block (0, 0, 0): waits at a barrier of the "
                     "block that another live "
                     "thread does not reach"});
  REQUIRE(fault.launch(out.get(), stream) == cudaSuccess);
  CHECK(stream.finish() == cudaErrorLaunchFailure);
  CHECK_THAT(emulation::fault(0), Catch::EndsWith(fault.text));
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
  CHECK(cudaPeekAtLastError() == cudaErrorLaunchFailure);  // it stays
  CHECK(cudaMemsetAsync(out.get(), 0, 4, stream) == cudaErrorLaunchFailure);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaErrorLaunchFailure);
  REQUIRE(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(emulation::fault(0).empty());
  REQUIRE(early_ends(out.get(), stream) == cudaSuccess);
  CHECK(stream.finish() == cudaSuccess);
  CHECK(out.values()[0] == 39);
}

TEST_CASE("what is launched or named wrongly is refused at once", "[emulation][errors]") {
  const TestStream stream;
  const DeviceArray<float> x(1);
  CHECK(scale(x.get(), x.get(), 0, 2.0f, stream) == cudaErrorInvalidConfiguration);  // no block
  CHECK(scale(x.get(), x.get(), 1, 2.0f, nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(emulation::launch_on(stream, {.grid = 1, .block = 1025}, "", [] {}) ==
        cudaErrorInvalidConfiguration);
  CHECK(emulation::launch_on(stream, {.grid = 1, .block = dim3(32, 33)}, "", [] {}) ==
        cudaErrorInvalidConfiguration);
  CHECK(emulation::launch_on(stream, {.grid = 1, .block = 1, .shared_bytes = 228 << 10}, "",
                             [] {}) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(scale(x.get(), x.get(), 1, 2.0f, stream) == cudaErrorInvalidResourceHandle);  // device 0's
  const TestEvent of_another;
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaEventRecord(of_another, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(8) == cudaErrorInvalidDevice);
  cudaStream_t blocking = nullptr;
  CHECK(cudaStreamCreateWithFlags(&blocking, 0) == cudaErrorNotSupported);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
  CHECK(std::string(cudaGetErrorString(cudaErrorMemoryAllocation)) == "out of device memory");
  cudaGetLastError();
}

TEST_CASE("a machine without a device says so", "[emulation][errors]") {
  emulation::set_device_count(0);
  int count = -1;
  void* memory = &count;
  cudaStream_t stream = nullptr;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  CHECK(cudaMalloc(&memory, 4) == cudaErrorNoDevice);
  CHECK(memory == nullptr);
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaErrorNoDevice);
  emulation::set_device_count(8);
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 8);
  cudaGetLastError();
}

TEST_CASE("fresh memory is poison: NaN, and -1", "[emulation][memory]") {
  const TestStream stream;
  const DeviceArray<float> x(5), y(5);
  const DeviceArray<int> i(3);
  REQUIRE(scale(x.get(), y.get(), 5, 0.0f, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  for (const float value : y.values()) CHECK(std::isnan(value));
  CHECK(i.values() == std::vector<int>(3, -1));
}

TEST_CASE("memory has an end, an owner and a kind", "[emulation][memory]") {
  std::size_t before = 0, after = 0, total = 0;
  emulation::set_device_memory(std::size_t{1} << 30);
  REQUIRE(cudaMemGetInfo(&before, &total) == cudaSuccess);
  CHECK(total == std::size_t{1} << 30);
  char* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 1000) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&after, &total) == cudaSuccess);
  CHECK(before - after == 1000);
  void* much = nullptr;
  CHECK(cudaMalloc(&much, after + 1) == cudaErrorMemoryAllocation);
  CHECK(much == nullptr);
  CHECK(cudaMalloc(&much, ~std::size_t{0}) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);  // and what there is stays usable
  CHECK(cudaMemcpy(memory, "abc", 3, cudaMemcpyHostToDevice) == cudaSuccess);

  cudaPointerAttributes attributes = {};
  REQUIRE(cudaPointerGetAttributes(&attributes, memory + 999) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  REQUIRE(cudaPointerGetAttributes(&attributes, &total) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  char* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 10) == cudaSuccess);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned + 9) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFree(memory + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaFree(nullptr) == cudaSuccess);
  emulation::set_device_memory(std::size_t{16} << 30);
  cudaGetLastError();
}

TEST_CASE("memory is freed once no stream uses it", "[emulation][memory]") {
  const TestStream stream;
  auto* x = new DeviceArray<float>(std::vector<float>{1.0f});
  const DeviceArray<float> y(1);
  sleep_on_stream(stream, milliseconds(40));
  REQUIRE(scale(x->get(), y.get(), 1, 2.0f, stream) == cudaSuccess);
  delete x;
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(y.values()[0] == 3.0f);
}

TEST_CASE("devices reach each other's memory", "[emulation][memory]") {
  int can = -1;
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 3) == cudaSuccess);
  CHECK(can == 1);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 0) == cudaSuccess);
  CHECK(can == 0);
  CHECK(cudaDeviceCanAccessPeer(&can, 0, 8) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceEnablePeerAccess(3, 0) == cudaSuccess);
  CHECK(cudaDeviceEnablePeerAccess(3, 0) == cudaErrorPeerAccessAlreadyEnabled);
  cudaGetLastError();
  cudaDeviceProp properties = {};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(std::string(properties.name) == "emulated device");
  CHECK(cudaGetDeviceProperties(&properties, 8) == cudaErrorInvalidDevice);
  cudaGetLastError();
}

TEST_CASE("streams of several threads and devices work side by side", "[emulation][streams]") {
  std::vector<std::vector<int>> results(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([rank, &results] {
      if (cudaSetDevice(rank) != cudaSuccess) return;
      cudaStream_t stream = nullptr;
      int *in = nullptr, *out = nullptr;
      bool fine = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
                  cudaMalloc(&in, 512) == cudaSuccess && cudaMalloc(&out, 512) == cudaSuccess;
      std::vector<int> values(128, rank);
      values[0] = -rank;
      fine = fine &&
             cudaMemcpyAsync(in, values.data(), 512, cudaMemcpyHostToDevice, stream) == cudaSuccess;
      for (int i = 0; i < 20 && fine; ++i) {
        fine = reverse_blocks(in, out, 128, stream) == cudaSuccess;
        std::swap(in, out);
      }
      fine = fine &&
             cudaMemcpyAsync(values.data(), in, 512, cudaMemcpyDeviceToHost, stream) == cudaSuccess;
      fine = fine && cudaStreamSynchronize(stream) == cudaSuccess;
      if (fine) results[static_cast<std::size_t>(rank)] = values;
      cudaFree(in);
      cudaFree(out);
      cudaStreamDestroy(stream);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < 4; ++rank) {
    std::vector<int> expected(128, rank);
    expected[0] = -rank;
    CHECK(results[static_cast<std::size_t>(rank)] == expected);
  }
}

}  // namespace tessera::testing
