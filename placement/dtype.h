// placement/dtype.h: element types, and the one table of promotion and accumulation types.
// Names are those of safetensors: F64 F32 BF16 I64 I32 BOOL.
#pragma once

#include <cstdint>
#include <string_view>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kI64, kI32, kBool };

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
      return 2;
    case DType::kBool:
      return 1;
  }
  return 0;
}
constexpr bool is_floating(DType dtype) noexcept { return dtype <= DType::kBF16; }
constexpr bool is_integer(DType dtype) noexcept {
  return dtype == DType::kI64 || dtype == DType::kI32;
}

constexpr std::string_view name_of(DType dtype) noexcept {
  constexpr std::string_view kNames[] = {"F64", "F32", "BF16", "I64", "I32", "BOOL"};
  return kNames[static_cast<int>(dtype)];
}
/// Errors: InvalidArgument for a name that is not in the table (case matters).
StatusOr<DType> parse_dtype(std::string_view name);

/// The type of a result of operands `a` and `b`: floating beats integer beats bool, then the wider.
/// BF16 with F32 is F32; an integer with a floating type is that floating type. Source: torch.
constexpr DType promote(DType a, DType b) noexcept {
  if (is_floating(a) != is_floating(b)) return is_floating(a) ? a : b;
  return a < b ? a : b;  // the enumerators stand from wide to narrow inside each kind
}
/// The type in which sums of `dtype` are formed: BF16 in F32, BOOL and I32 in I64.
constexpr DType accumulation_type(DType dtype) noexcept {
  if (dtype == DType::kBF16) return DType::kF32;
  if (dtype == DType::kBool || dtype == DType::kI32) return DType::kI64;
  return dtype;
}
static_assert(promote(DType::kBF16, DType::kI64) == DType::kBF16);
static_assert(promote(DType::kI32, DType::kBool) == DType::kI32);

}  // namespace tessera
