// kernels/vector_math.h: elementary functions without branches or calls, so that loops over them
// vectorise. F32 forms: exp and log within 1.2 units in the last place, tanh 1.3, sigmoid 2.5; use
// them under `#pragma omp simd`. F64 forms are <cmath>.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/host_device.h"

namespace tessera::kernels::inline TSR_MACHINE {

/// a·b + c with one rounding where the machine can, the same in a vector loop and in its remainder.
TSR_HOST_DEVICE inline float mul_add(float a, float b, float c) noexcept {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
TSR_HOST_DEVICE inline double mul_add(double a, double b, double c) noexcept {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// e^x: −inf gives 0, beyond 88.73 +inf, NaN stays NaN; subnormal results are kept.
TSR_HOST_DEVICE inline float exp_f32(float x) noexcept {
  // Both comparisons are false for NaN, which then runs through to the result.
  float t = x < -104.0F ? -104.0F : x;
  t = t > 89.0F ? 89.0F : t;
  // Adding 1.5·2^23 rounds to the nearest integer and leaves it in the low bits.
  constexpr float kRounder = 12582912.0F;
  const float shifted = mul_add(t, 1.44269504088896341F, kRounder);
  const float n = shifted - kRounder;
  const float r = mul_add(n, -1.42860682e-6F, mul_add(n, -0.693145752F, t));
  float p = 1.98412698e-4F;
  p = mul_add(p, r, 1.38888892e-3F);
  p = mul_add(p, r, 8.33333377e-3F);
  p = mul_add(p, r, 4.16666679e-2F);
  p = mul_add(p, r, 1.66666672e-1F);
  p = mul_add(p, r, 0.5F);
  p = mul_add(p, r, 1.0F);
  p = mul_add(p, r, 1.0F);
  // 2^n in two factors, so that results below 2^-126 round once and above 2^127 overflow to +inf.
  const std::uint32_t power = std::bit_cast<std::uint32_t>(shifted) - 0x4b400000U;
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(power) >> 1);
  const float low = std::bit_cast<float>((half + 127U) << 23);
  const float high = std::bit_cast<float>((power - half + 127U) << 23);
  return p * low * high;
}
TSR_HOST_DEVICE inline double exp_f64(double x) noexcept { return std::exp(x); }

/// The natural logarithm: 0 gives −inf, below 0 NaN, +inf and NaN stay.
TSR_HOST_DEVICE inline float log_f32(float x) noexcept {
  const bool tiny = x < 1.17549435e-38F;
  const std::uint32_t word = std::bit_cast<std::uint32_t>(tiny ? x * 8388608.0F : x);
  // m in [√½, √2), x = m·2^e
  const std::uint32_t offset = word - 0x3f3504f3U;
  const auto exponent = static_cast<std::int32_t>(offset) >> 23;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0F : 0.0F);
  const float m = std::bit_cast<float>((offset & 0x007fffffU) + 0x3f3504f3U);
  const float f = m - 1.0F;
  const float z = f * f;
  float p = 7.0376836292e-2F;  // Source: Cephes logf
  p = mul_add(p, f, -1.1514610310e-1F);
  p = mul_add(p, f, 1.1676998740e-1F);
  p = mul_add(p, f, -1.2420140846e-1F);
  p = mul_add(p, f, 1.4249322787e-1F);
  p = mul_add(p, f, -1.6668057665e-1F);
  p = mul_add(p, f, 2.0000714765e-1F);
  p = mul_add(p, f, -2.4999993993e-1F);
  p = mul_add(p, f, 3.3333331174e-1F);
  float result = mul_add(e, -2.12194440e-4F, f * z * p);
  result = mul_add(z, -0.5F, result) + f;
  result = mul_add(e, 0.693359375F, result);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  result = x < kInf ? result : x;  // +inf and NaN
  result = x == 0.0F ? -kInf : result;
  return x < 0.0F ? std::numeric_limits<float>::quiet_NaN() : result;
}

/// 1 / (1 + e^−x)
TSR_HOST_DEVICE inline float sigmoid_f32(float x) noexcept { return 1.0F / (1.0F + exp_f32(-x)); }
TSR_HOST_DEVICE inline double sigmoid_f64(double x) noexcept { return 1.0 / (1.0 + std::exp(-x)); }
/// x / (1 + e^−x)
TSR_HOST_DEVICE inline float silu_f32(float x) noexcept { return x / (1.0F + exp_f32(-x)); }
TSR_HOST_DEVICE inline double silu_f64(double x) noexcept { return x / (1.0 + std::exp(-x)); }

TSR_HOST_DEVICE inline float tanh_f32(float x) noexcept {
  const float magnitude = std::fabs(x);
  const float z = x * x;
  float p = -5.70498872745e-3F;  // Source: Cephes tanhf, below 0.625
  p = mul_add(p, z, 2.06390887954e-2F);
  p = mul_add(p, z, -5.37397155531e-2F);
  p = mul_add(p, z, 1.33314422036e-1F);
  p = mul_add(p, z, -3.33332819422e-1F);
  const float small = mul_add(p * z, x, x);
  const float large = 1.0F - 2.0F / (exp_f32(2.0F * magnitude) + 1.0F);
  return std::copysign(magnitude < 0.625F ? small : large, x);
}

}  // namespace tessera::kernels::inline TSR_MACHINE
