// kernels/float16.h: IEEE half precision as a stored type; arithmetic happens in float.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Bits of the half nearest to `value`, ties to even; beyond 65504 infinite, subnormals kept, NaN
/// stays NaN. Without branches, so that loops vectorise.
TSR_HOST_DEVICE constexpr std::uint16_t half_bits(float value) noexcept {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = word & 0x7fffffffU;
  // Exponents differ by 112; what rounds up to 2^16 has become the infinity's bits by itself.
  const std::uint32_t normal = (magnitude + 0xfffU + ((magnitude >> 13) & 1U) - 0x38000000U) >> 13;
  // One unit of 0.5 in float is the smallest subnormal: the addition rounds to it.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  std::uint32_t bits = magnitude < 0x38800000U ? small : normal;
  bits = magnitude >= 0x47800000U ? 0x7c00U : bits;
  bits = magnitude > 0x7f800000U ? 0x7e00U | ((magnitude >> 13) & 0x1ffU) : bits;
  return static_cast<std::uint16_t>(bits | ((word >> 16) & 0x8000U));
}

/// Exact.
TSR_HOST_DEVICE constexpr float half_value(std::uint16_t bits) noexcept {
  const std::uint32_t shifted = (bits & 0x7fffU) << 13;
  const std::uint32_t normal = shifted + (shifted >= 0x0f800000U ? 0x70000000U : 0x38000000U);
  const float small = std::bit_cast<float>(shifted + 0x38800000U) - 0x1p-14F;
  const std::uint32_t word = shifted < 0x00800000U ? std::bit_cast<std::uint32_t>(small) : normal;
  return std::bit_cast<float>(word | (static_cast<std::uint32_t>(bits & 0x8000U) << 16));
}

struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  TSR_HOST_DEVICE explicit Float16(float value) noexcept : bits(half_bits(value)) {}
  TSR_HOST_DEVICE explicit operator float() const noexcept { return half_value(bits); }
};
static_assert(sizeof(Float16) == 2);
static_assert(half_bits(65504.0F) == 0x7bff && half_bits(65520.0F) == 0x7c00);
static_assert(half_value(0x0001) == 0x1p-24F);

}  // namespace tessera
