// kernels/dtype_switch.h: from a DType to a C++ type, conversions between element types, and the
// error for a dtype that a kernel does not take.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "kernels/host_device.h"
#include "placement/dtype.h"

namespace tessera::kernels {

template <class T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>) with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kBF16:
      return f(TypeTag<BFloat16>{});
    case DType::kF16:
      return f(TypeTag<Float16>{});
    case DType::kI64:
      return f(TypeTag<std::int64_t>{});
    case DType::kI32:
      return f(TypeTag<std::int32_t>{});
    case DType::kU8:
      return f(TypeTag<std::uint8_t>{});
    case DType::kBool:
      break;
  }
  return f(TypeTag<bool>{});
}

/// Calls f(TypeTag<W>) with the unsigned integer W of `bytes` bytes, an element's: what moves
/// elements without a cast moves their bits, so NaN payloads survive.
template <class F>
decltype(auto) visit_word(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 8:
      return f(TypeTag<std::uint64_t>{});
    case 4:
      return f(TypeTag<std::uint32_t>{});
    case 2:
      return f(TypeTag<std::uint16_t>{});
    default:
      return f(TypeTag<std::uint8_t>{});
  }
}

/// BF16 or F16.
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>;

/// Arithmetic happens in four types: double, float (F32, BF16, F16), int64 and int32 (I32, U8,
/// BOOL).
template <class T>
using ComputeType =
    std::conditional_t<kIsHalf<T>, float, std::conditional_t<sizeof(T) == 1, std::int32_t, T>>;

/// Calls f(TypeTag<C>) with the type in which values of `dtype` are computed.
template <class F>
decltype(auto) visit_compute_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16:
      return f(TypeTag<float>{});
    case DType::kI64:
      return f(TypeTag<std::int64_t>{});
    case DType::kI32:
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return f(TypeTag<std::int32_t>{});
}

template <class T>
constexpr DType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, Float16>) return DType::kF16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::kI64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::kI32;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::kU8;
  return DType::kBool;
}

/// A floating number as a signed integer: towards 0, the integers' ends beyond them, 0 of NaN.
template <class To, class From>
TSR_HOST_DEVICE inline To truncated(From value) noexcept {
  // Selections, so that loops stay vectors; only what the integers hold is converted.
  constexpr From kEnd = static_cast<From>(std::uint64_t{1} << (8 * sizeof(To) - 1));
  const From held = value >= -kEnd && value < kEnd ? value : From{0};
  const To whole = static_cast<To>(held);
  const To below_end = value >= kEnd ? std::numeric_limits<To>::max() : whole;
  return value < -kEnd ? std::numeric_limits<To>::min() : below_end;
}

/// One element as another type: BF16 and F16 go through F32, BOOL is "not zero", floating numbers
/// become integers as `truncated` has it, U8 is the low byte of an integer.
template <class To, class From>
TSR_HOST_DEVICE inline To convert(From value) noexcept {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (kIsHalf<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (kIsHalf<To>) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_same_v<To, std::uint8_t> && std::is_floating_point_v<From>) {
    return static_cast<To>(truncated<std::int32_t>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncated<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

/// Throws InvalidArgument: "`kernel`: dtype I32 is not supported; allowed: `allowed`".
[[noreturn]] void throw_dtype(std::string_view kernel, DType dtype, std::string_view allowed);
inline void require_floating(std::string_view kernel, DType dtype) {
  if (!is_floating(dtype)) throw_dtype(kernel, dtype, "F64, F32, BF16, F16");
}

}  // namespace tessera::kernels
