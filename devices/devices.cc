#include "devices/devices.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "emulation/control.h"
#include "io/json.h"

namespace tessera {
namespace {

/// Cards of one kind.
struct Cards {
  StatusOr<std::shared_ptr<Device>> (*make)(int card);
  int (*num)();
  std::vector<LibraryUse> (*libraries)(Device&);
};

#ifdef TSR_HAS_EMULATION
/// What TESSERA_EMULATED_FAULT, "DEVICE:NUMBER", asks for: that kernel of that device fails.
Status plant_fault() {
  const char* const asked = std::getenv("TESSERA_EMULATED_FAULT");
  if (asked == nullptr) return absl::OkStatus();
  const std::pair<std::string, std::string> words = absl::StrSplit(asked, absl::MaxSplits(':', 1));
  int device = 0;
  std::int64_t number = 0;
  if (!absl::SimpleAtoi(words.first, &device) || !absl::SimpleAtoi(words.second, &number) ||
      device < 0 || device >= num_emulated_devices() || number < 1) {
    return invalid_argument("TESSERA_EMULATED_FAULT " + in_quotes(asked) +
                            ": DEVICE:NUMBER is expected, a device below " +
                            std::to_string(num_emulated_devices()) +
                            " and the number of one of its kernels, 1 the first");
  }
  emulation::plant_fault(device, number);
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<Device>> make_emulated_card(int card) {
  static const Status planted = plant_fault();  // once, whichever rank comes first
  TSR_RETURN_IF_ERROR(planted);
  return make_emulated_device(card);
}
#endif

/// Null where the program is built without them.
const Cards* cards_of([[maybe_unused]] DeviceId::Kind kind) {
#ifdef TSR_HAS_CUDA
  static constexpr Cards kCuda{make_cuda_device, num_cuda_devices, cuda_libraries};
  if (kind == DeviceId::Kind::kCuda) return &kCuda;
#endif
#ifdef TSR_HAS_EMULATION
  static constexpr Cards kEmulated{make_emulated_card, num_emulated_devices, emulated_libraries};
  if (kind == DeviceId::Kind::kEmulated) return &kEmulated;
#endif
  return nullptr;
}

}  // namespace

StatusOr<DeviceId::Kind> parse_device_kind(std::string_view flag, std::string_view text) {
  if (text == "cpu") return DeviceId::Kind::kCpu;
  if (text == "cuda") return DeviceId::Kind::kCuda;
  if (text == "emulated") return DeviceId::Kind::kEmulated;
  return invalid_argument(std::string(flag) + " " + in_quotes(text) +
                          ": cpu, cuda and emulated are allowed");
}

StatusOr<std::shared_ptr<Device>> make_device_of_rank(DeviceId::Kind kind, std::int64_t rank) {
  if (kind == DeviceId::Kind::kCpu) {
    return std::shared_ptr<Device>(std::shared_ptr<Device>(), &cpu_device());  // of the program
  }
  const Cards* const cards = cards_of(kind);
  if (cards != nullptr) return cards->make(static_cast<int>(rank % std::max(1, cards->num())));
  return unavailable(std::string("device ") +
                     (kind == DeviceId::Kind::kCuda ? "cuda" : "emulated") +
                     ": these programs were built without it; docs/cuda.md says what runs where");
}

StatusOr<std::function<std::shared_ptr<Allocator>(std::int64_t)>> memory_of_devices(
    DeviceId::Kind kind) {
  if (kind == DeviceId::Kind::kCpu) return nullptr;
  TSR_RETURN_IF_ERROR(make_device_of_rank(kind, 0).status());
  return [kind](std::int64_t rank) {
    return value_or_throw(make_device_of_rank(kind, rank))->make_allocator();
  };
}

std::vector<LibraryUse> libraries_of(Device& device) {
  const Cards* const cards = cards_of(device.id().kind);
  return cards == nullptr ? std::vector<LibraryUse>() : cards->libraries(device);
}

int num_devices(DeviceId::Kind kind) {
  if (kind == DeviceId::Kind::kCpu) return 1;
  const Cards* const cards = cards_of(kind);
  return cards == nullptr ? 0 : cards->num();
}

bool has_emulated_devices() { return cards_of(DeviceId::Kind::kEmulated) != nullptr; }

}  // namespace tessera
