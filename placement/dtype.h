// placement/dtype.h: element types, and the one table of promotion and accumulation types.
// Names are those of safetensors: F64 F32 BF16 F16 I64 I32 U8 BOOL.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// The numbers stand in recorded files: new types go to the end.
enum class DType : std::uint8_t { kF64, kF32, kBF16, kI64, kI32, kBool, kF16, kU8 };
inline constexpr DType kLastDType = DType::kU8;

/// Units: bytes of one element.
constexpr std::int64_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
    case DType::kBool:
      return 1;
  }
  return 0;
}
constexpr bool is_floating(DType dtype) noexcept {
  return dtype <= DType::kBF16 || dtype == DType::kF16;
}
/// Floating types of 16 bits: stored so, computed and summed in F32.
constexpr bool is_half(DType dtype) noexcept {
  return dtype == DType::kBF16 || dtype == DType::kF16;
}
/// Types that may index another tensor.
constexpr bool is_index(DType dtype) noexcept {
  return dtype == DType::kI64 || dtype == DType::kI32;
}
constexpr bool is_integer(DType dtype) noexcept { return is_index(dtype) || dtype == DType::kU8; }

constexpr std::string_view name_of(DType dtype) noexcept {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "I64", "I32", "BOOL", "F16", "U8"};
  return kNames[static_cast<int>(dtype)];
}
/// Errors: InvalidArgument for a name that is not in the table (case matters).
StatusOr<DType> parse_dtype(std::string_view name);

/// The type of a result of operands `a` and `b`: floating beats integer beats bool, then the wider.
/// BF16 with F16 is F32, as neither holds the other; an integer with a floating type is that
/// floating type. Source: torch.
constexpr DType promote(DType a, DType b) noexcept {
  if (a == b) return a;
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  if (is_half(a) && is_half(b)) return DType::kF32;
  if (a == DType::kBool || b == DType::kBool) return a == DType::kBool ? b : a;
  return size_of(a) > size_of(b) ? a : b;
}
/// The type in which sums of `dtype` are formed: BF16 and F16 in F32, BOOL, U8 and I32 in I64.
constexpr DType accumulation_type(DType dtype) noexcept {
  if (is_half(dtype)) return DType::kF32;
  return is_floating(dtype) ? dtype : DType::kI64;
}
static_assert(promote(DType::kBF16, DType::kI64) == DType::kBF16);
static_assert(promote(DType::kI32, DType::kBool) == DType::kI32);
static_assert(promote(DType::kF16, DType::kBF16) == DType::kF32);
static_assert(promote(DType::kU8, DType::kBool) == DType::kU8);

}  // namespace tessera
