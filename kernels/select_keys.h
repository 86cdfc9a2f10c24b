// kernels/select_keys.h: element values as unsigned keys in sorting order, so that comparing is one
// instruction. NaN is the largest; −0.0 and +0.0 are equal. A composite key holds a 32-bit key
// above the inverted position: of equal values, the lower index has the larger composite.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/dtype_switch.h"
#include "kernels/select.h"

namespace tessera::kernels {

template <class T>
inline constexpr bool kNarrowKey = sizeof(ComputeType<T>) == 4;

TSR_HOST_DEVICE inline std::uint32_t ordered_key(float value) noexcept {
  const std::uint32_t word = std::bit_cast<std::uint32_t>(value + 0.0F);  // −0.0 + 0.0 is +0.0
  const std::uint32_t ordered = (word & 0x80000000U) != 0 ? ~word : word | 0x80000000U;
  return value != value ? 0xffffffffU : ordered;
}
TSR_HOST_DEVICE inline std::uint64_t ordered_key(double value) noexcept {
  const std::uint64_t word = std::bit_cast<std::uint64_t>(value + 0.0);
  const std::uint64_t ordered =
      (word & 0x8000000000000000U) != 0 ? ~word : word | 0x8000000000000000U;
  return value != value ? ~std::uint64_t{0} : ordered;
}
TSR_HOST_DEVICE inline std::uint32_t ordered_key(std::int32_t value) noexcept {
  return static_cast<std::uint32_t>(value) ^ 0x80000000U;
}
TSR_HOST_DEVICE inline std::uint64_t ordered_key(std::int64_t value) noexcept {
  return static_cast<std::uint64_t>(value) ^ 0x8000000000000000U;
}

/// The key whose largest value comes first in `order`.
template <class T>
TSR_HOST_DEVICE inline auto rank_key(T value, Order order) noexcept {
  const auto key = ordered_key(convert<ComputeType<T>>(value));
  return order == Order::kDescending ? key : static_cast<decltype(key)>(~key);
}

// Positions count down from 2^32 − 2, so that all ones lie above every composite.
inline constexpr std::uint32_t kFirstPosition = 0xfffffffeU;
inline constexpr std::uint64_t kAboveComposites = ~std::uint64_t{0};
inline constexpr std::int64_t kMaxCompositeLine = kFirstPosition;

TSR_HOST_DEVICE inline std::uint64_t composite(std::uint32_t key, std::uint32_t index) noexcept {
  return std::uint64_t{key} << 32 | (kFirstPosition - index);
}
TSR_HOST_DEVICE inline std::int64_t index_of(std::uint64_t composite) noexcept {
  return static_cast<std::int64_t>(kFirstPosition - static_cast<std::uint32_t>(composite));
}

}  // namespace tessera::kernels
