// The emulated device against what CUDA says of itself. On a machine with a card the cases without
// [emulated] hold there as well.
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "emulation/control.h"
#include "tests/emulation/samples.h"

namespace tessera::testing {
namespace {

using std::chrono::milliseconds;

/// Memory of the device that goes with the test.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(int n) : n_(n) { REQUIRE(cudaMalloc(&data_, bytes()) == cudaSuccess); }
  explicit DeviceArray(const std::vector<T>& values)
      : DeviceArray(static_cast<int>(values.size())) {
    REQUIRE(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> out(static_cast<std::size_t>(n_));
    REQUIRE(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return out;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(T); }
  int n_;
  T* data_ = nullptr;
};

class TestStream {
 public:
  TestStream() {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess);
  }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }
  cudaError_t finish() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&event_, flags) == cudaSuccess);
  }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  ~TestEvent() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

std::vector<int> counted(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

void sleep_on_stream(cudaStream_t stream, milliseconds time) {
  static milliseconds slept;
  slept = time;
  REQUIRE(cudaLaunchHostFunc(
              stream,
              [](void* at) { std::this_thread::sleep_for(*static_cast<milliseconds*>(at)); },
              &slept) == cudaSuccess);
}

}  // namespace

TEST_CASE("each thread of a grid computes its element", "[emulation][kernels]") {
  const TestStream stream;
  const int n = GENERATE(1, 127, 128, 1000);
  const DeviceArray<float> in(std::vector<float>(static_cast<std::size_t>(n), 2.5f)), out(n);
  REQUIRE(scale(in.get(), out.get(), n, 2.0f, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(out.values() == std::vector<float>(static_cast<std::size_t>(n), 6.0f));
}

TEST_CASE("threads of a block meet at barriers and share memory", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> in(counted(384)), out(384);
  const bool is_dynamic = GENERATE(false, true);
  REQUIRE((is_dynamic ? reverse_blocks_dynamic : reverse_blocks)(in.get(), out.get(), 384,
                                                                 stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int i = 0; i < 384; ++i) expected.push_back(i / 128 * 128 + 127 - i % 128);
  CHECK(out.values() == expected);
}

TEST_CASE("a sum of all blocks, by the block that comes last", "[emulation][kernels]") {
  const TestStream stream;
  const int n = GENERATE(1, 255, 256, 5000);
  std::vector<float> values;
  for (int i = 0; i < n; ++i) values.push_back(static_cast<float>(i % 7));
  const DeviceArray<float> in(values), scratch(32), out(1);
  const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
  for (int again = 0; again < 2; ++again) {
    REQUIRE(sum(in.get(), n, scratch.get(), counter.get(), out.get(), stream) == cudaSuccess);
  }
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(out.values()[0] == std::accumulate(values.begin(), values.end(), 0.0f));
  CHECK(counter.values()[0] == 0);
}

TEST_CASE("atomics count what many threads add", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> keys;
  for (int i = 0; i < 1000; ++i) keys.push_back(i * i % 10);
  const DeviceArray<int> in(keys), counts(std::vector<int>(10, 0));
  REQUIRE(histogram(in.get(), 1000, counts.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(counts.values() == std::vector<int>{100, 200, 0, 0, 200, 100, 200, 0, 0, 200});
}

TEST_CASE("atomics of every kind", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> values;
  for (int i = 0; i < 200; ++i) values.push_back(i * 37 % 101 - 50);
  for (int& value : values) value = std::abs(value) + 3;
  const DeviceArray<int> in(values), greatest(std::vector<int>{-7}), least(std::vector<int>{1000});
  const DeviceArray<unsigned> bits(std::vector<unsigned>{0}), round(std::vector<unsigned>{0});
  const DeviceArray<unsigned long long> total(std::vector<unsigned long long>{5});
  REQUIRE(atomics(in.get(), 200, greatest.get(), least.get(), bits.get(), round.get(), total.get(),
                  stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  unsigned all_bits = 0;
  for (const int value : values) all_bits |= 1u << (value & 31);
  CHECK(greatest.values()[0] == *std::max_element(values.begin(), values.end()));
  CHECK(least.values()[0] == *std::min_element(values.begin(), values.end()));
  CHECK(bits.values()[0] == all_bits);
  CHECK(round.values()[0] == 0);  // 200 steps round 10 numbers
  CHECK(total.values()[0] ==
        5u + static_cast<unsigned>(std::accumulate(values.begin(), values.end(), 0)));
}

TEST_CASE("lanes of a warp exchange values", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<double> values;
  for (int i = 0; i < 32; ++i) values.push_back(i + 0.25);
  const DeviceArray<double> in(values), out(128);
  REQUIRE(exchanges(in.get(), out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  const std::vector<double> got = out.values();
  for (int lane = 0; lane < 32; ++lane) {
    CAPTURE(lane);
    CHECK(got[static_cast<std::size_t>(lane)] == (lane ^ 5) + 0.25);
    CHECK(got[static_cast<std::size_t>(32 + lane)] == (lane + 3 < 32 ? lane + 3 : lane) + 0.25);
    CHECK(got[static_cast<std::size_t>(64 + lane)] == (lane < 3 ? lane : lane - 3) + 0.25);
    CHECK(got[static_cast<std::size_t>(96 + lane)] == 7.25);
  }
}

TEST_CASE("exchanges stay within segments of a warp", "[emulation][kernels]") {
  const TestStream stream;
  const int width = GENERATE(1, 4, 8, 32);
  const DeviceArray<int> in(std::vector<int>(32, 1)), out(32);
  REQUIRE(scan_segments(in.get(), out.get(), width, stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane) expected.push_back(lane % width + 1);
  CHECK(out.values() == expected);
}

TEST_CASE("lanes that part meet among themselves", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> in(counted(32)), out(32);
  REQUIRE(sum_by_parity(in.get(), out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected;
  for (int lane = 0; lane < 32; ++lane) expected.push_back(lane % 2 == 0 ? 240 : 256);
  CHECK(out.values() == expected);
}

TEST_CASE("warps and blocks vote", "[emulation][kernels]") {
  const TestStream stream;
  std::vector<int> values(192, 1);
  for (int i = 0; i < 64; ++i) values[static_cast<std::size_t>(i)] = i % 3 - 1;
  for (int i = 64; i < 128; ++i) values[static_cast<std::size_t>(i)] = 0;
  const DeviceArray<int> in(values), counts(3);
  const DeviceArray<unsigned> ballots(6);
  REQUIRE(votes(in.get(), 192, ballots.get(), counts.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  CHECK(counts.values() == std::vector<int>{21, 0, 64});
  CHECK(ballots.values() == std::vector<unsigned>{0x24924924u, 0x49249249u, 0, 0, ~0u, ~0u});
}

TEST_CASE("a barrier does not wait for threads that ended", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<int> out(40);
  REQUIRE(early_ends(out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<int> expected = counted(40);
  std::reverse(expected.begin(), expected.end());
  CHECK(out.values() == expected);
}

TEST_CASE("blocks and threads have three coordinates", "[emulation][kernels]") {
  const TestStream stream;
  const DeviceArray<unsigned> out(192);
  REQUIRE(positions(out.get(), stream) == cudaSuccess);
  REQUIRE(stream.finish() == cudaSuccess);
  std::vector<unsigned> expected;
  for (unsigned block = 0; block < 12; ++block) {
    for (unsigned thread = 0; thread < 16; ++thread) {
      const unsigned of_block = (block % 2 * 10 + block / 2 % 3) * 10 + block / 6;
      expected.push_back(of_block * 1000 + (thread % 4 * 10 + thread / 4 % 2) * 10 + thread / 8);
    }
  }
  CHECK(out.values() == expected);
}

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
