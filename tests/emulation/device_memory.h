#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

namespace tessera::testing {

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

}  // namespace tessera::testing
