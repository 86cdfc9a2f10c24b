#include "kernels/device.h"

#include <cstddef>
#include <new>

#include "kernels/kernel_table.h"
#include "kernels/processor_device.h"
#include "placement/status.h"

namespace tessera {

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
  alignas(Stream) static std::byte stream[sizeof(Stream)];
  alignas(ProcessorDevice) static std::byte memory[sizeof(ProcessorDevice)];
  static ProcessorDevice* const device =
      ::new (memory) ProcessorDevice(kernels::cpu_kernels(), *::new (stream) Stream);
  return *device;
}

}  // namespace tessera
