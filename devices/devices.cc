#include "devices/devices.h"

#include <algorithm>
#include <string>

#include "io/json.h"
#include "kernels/cuda_device.h"

namespace tessera {

StatusOr<DeviceId::Kind> parse_device_kind(std::string_view flag, std::string_view text) {
  if (text == "cpu") return DeviceId::Kind::kCpu;
  if (text == "cuda") return DeviceId::Kind::kCuda;
  if (text == "emulated") return DeviceId::Kind::kEmulated;
  return invalid_argument(std::string(flag) + " " + in_quotes(text) +
                          ": cpu, cuda and emulated are allowed");
}

StatusOr<std::shared_ptr<Device>> make_device_of_rank(DeviceId::Kind kind, std::int64_t rank) {
  switch (kind) {
    case DeviceId::Kind::kCpu:
      return std::shared_ptr<Device>(std::shared_ptr<Device>(), &cpu_device());  // of the program
    case DeviceId::Kind::kCuda:
#ifdef TSR_HAS_CUDA
      return make_cuda_device(static_cast<int>(rank % std::max(1, num_cuda_devices())));
#else
      return unavailable(
          "device cuda: these programs were built without it; docs/cuda.md says what runs where");
#endif
    case DeviceId::Kind::kEmulated:
      return make_emulated_device(static_cast<int>(rank % std::max(1, num_emulated_devices())));
  }
  return internal_error("a device of unknown kind");
}

StatusOr<std::function<std::shared_ptr<Allocator>(std::int64_t)>> memory_of_devices(
    DeviceId::Kind kind) {
  if (kind == DeviceId::Kind::kCpu) return nullptr;
  TSR_RETURN_IF_ERROR(make_device_of_rank(kind, 0).status());
  return [kind](std::int64_t rank) {
    return value_or_throw(make_device_of_rank(kind, rank))->make_allocator();
  };
}

}  // namespace tessera
