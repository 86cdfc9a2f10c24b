// kernels/processor_device.h: the processor as a device, with whichever kernels: all is done when a
// call returns, streams hold nothing and every mark has come. For kernels/ alone: cpu_device(),
// shapes_device().
#pragma once

#include <cstring>
#include <memory>

#include "kernels/array.h"
#include "kernels/device.h"

namespace tessera {

class ProcessorDevice final : public Device {
 public:
  /// `stream` outlives the device: all devices of the processor have one.
  ProcessorDevice(const kernels::KernelTable& kernels, Stream& stream)
      : Device({}, kernels), stream_(stream) {}
  std::shared_ptr<Allocator> make_allocator() override { return make_pool_allocator(); }
  Stream& compute() override { return stream_; }
  Stream& comm() override { return stream_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream&) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void upload(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    copy(to, from, bytes, stream);
  }
  void clear(void* to, std::size_t bytes, Stream&) override { std::memset(to, 0, bytes); }
  Mark record(Stream&) override { return {}; }
  void wait(Stream&, const Mark&) override {}
  bool done(const Mark&) override { return true; }
  void reach(Device&) override {}
  void synchronize(const Mark&) override {}
  void raise_faults() override {}

 private:
  Stream& stream_;
};

}  // namespace tessera
