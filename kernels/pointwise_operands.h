// kernels/pointwise_operands.h: what the kernels of pointwise.h ask of their operands, and how they
// take them, on every device.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Whether the function's form of integers is the one that computes. Errors: as pointwise().
inline bool takes_integers(const Pointwise& function, std::span<const Array> operands,
                           const Array& out) {
  const bool is_complete = static_cast<int>(operands.size()) == function.num_operands;
  if (!is_complete) {
    throw Error(internal_error(absl::StrFormat("%s: %d operands of %d", std::string(function.name),
                                               operands.size(), function.num_operands)));
  }
  const auto floats = [](const Array& operand) { return is_floating(operand.dtype()); };
  const bool is_float = std::any_of(operands.begin(), operands.end(), floats);
  if (!is_float && function.has_integer) return true;
  if (!function.has_floating) {
    const auto first = std::find_if(operands.begin(), operands.end(), floats);
    throw_dtype(function.name, first->dtype(), "I64, I32, U8, BOOL");
  }
  if (!is_float) require_floating(function.name, out.dtype());
  return false;
}

/// The operands with integers among floating ones cast to the dtype that these promote to, as
/// elsewhere; empty where nothing changes. Functions compute in F64, which holds more integers.
inline std::vector<Array> promoted_integers(KernelContext& ctx, std::span<const Array> operands) {
  std::optional<DType> floating;
  bool any_integer = false;
  for (const Array& each : operands) {
    any_integer |= !is_floating(each.dtype());
    if (is_floating(each.dtype())) {
      floating = floating ? promote(*floating, each.dtype()) : each.dtype();
    }
  }
  if (!any_integer || !floating || *floating == DType::kF64) return {};
  std::vector<Array> cast;
  for (const Array& each : operands) cast.push_back(integers_as(ctx, each, *floating));
  return cast;
}

/// The error for an integer divided by 0.
inline Status no_remainder() {
  return out_of_range(
      "fmod: a divisor is 0, which integers have no remainder by; cast to a floating dtype for "
      "NaN");
}

}  // namespace tessera::kernels
