// kernels/bfloat16.h: the upper half of an IEEE float; arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Rounds to nearest even on the way in; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  TSR_HOST_DEVICE explicit BFloat16(float value) noexcept {
    const auto word = std::bit_cast<std::uint32_t>(value);
    bits = (word & 0x7fffffffU) > 0x7f800000U
               ? static_cast<std::uint16_t>((word >> 16) | 0x40U)
               : static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  TSR_HOST_DEVICE explicit operator float() const noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};
static_assert(sizeof(BFloat16) == 2);

}  // namespace tessera
