#include "kernels/device.h"

#include <cstddef>
#include <cstring>
#include <new>

#include "kernels/array.h"
#include "kernels/kernel_table.h"
#include "placement/status.h"

namespace tessera {
namespace {

// All is done when a call returns: streams hold nothing and every mark has come.
class CpuDevice final : public Device {
 public:
  CpuDevice() : Device({}, kernels::cpu_kernels()) {}
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
  Stream stream_;
};

}  // namespace

std::string to_string(DeviceId id) {
  const char* kind = id.kind == DeviceId::Kind::kCpu    ? "cpu:"
                     : id.kind == DeviceId::Kind::kCuda ? "cuda:"
                                                        : "emulated:";
  return kind + std::to_string(id.ordinal);
}

std::shared_ptr<Allocator> Device::make_pinned_allocator() { return make_pool_allocator(); }

void Device::begin_capture(const Mark&) {
  throw Error(unimplemented(to_string(id_) +
                            ": its work is done at once, so that none can be captured; allowed: "
                            "cuda and emulated devices"));
}
std::shared_ptr<CapturedWork> Device::end_capture(std::span<const Mark>) { return nullptr; }

Status read_while_capturing(const Device& device) {
  return failed_precondition(to_string(device.id()) +
                             ": its work is captured, and nothing of it has been done: the host "
                             "can neither wait for it nor read its values");
}

Device& cpu_device() noexcept {
  // Never destroyed: arrays of static objects outlive other statics.
  alignas(CpuDevice) static std::byte memory[sizeof(CpuDevice)];
  static CpuDevice* const device = ::new (memory) CpuDevice;
  return *device;
}

}  // namespace tessera
