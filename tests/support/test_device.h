// tests/support/test_device.h: what tests of devices run on: emulated devices, or cards where
// TESSERA_TEST_DEVICE says cuda (scripts/gpu_check).
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>

#include "devices/devices.h"

namespace tessera::testing {

inline DeviceId::Kind device_kind() {
  const char* name = std::getenv("TESSERA_TEST_DEVICE");
  if (name == nullptr) return DeviceId::Kind::kEmulated;
  return value_or_throw(parse_device_kind("TESSERA_TEST_DEVICE", name));
}
/// With streams of its own.
inline std::shared_ptr<Device> device_of_card(std::int64_t card) {
  return value_or_throw(make_device_of_rank(device_kind(), card));
}
/// Two ranks share a card.
inline std::shared_ptr<Allocator> memory_of_rank(std::int64_t rank) {
  return device_of_card(rank / 2)->make_allocator();
}

}  // namespace tessera::testing
