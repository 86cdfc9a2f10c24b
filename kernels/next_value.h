// kernels/next_value.h: neighbours among the values of a floating type, for every device.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/dtype_switch.h"

namespace tessera::kernels {

/// The neighbour of `from` among values of 16 bits, whose patterns ascend with the magnitude.
template <class Half>
TSR_HOST_DEVICE inline float next_half(float from, float to) {
  Half next = convert<Half>(from);
  from = convert<float>(next);
  to = convert<float>(convert<Half>(to));
  if (std::isnan(from) || std::isnan(to)) return from + to;
  if (from == to) return to;
  const bool outwards = from == 0.0F || (to > from) == (from > 0.0F);
  next.bits = static_cast<std::uint16_t>(outwards ? next.bits + 1 : next.bits - 1);
  if (from == 0.0F) next.bits = to < 0.0F ? 0x8001U : 0x0001U;
  return convert<float>(next);
}

/// The largest value of T below `value`.
template <class T>
TSR_HOST_DEVICE inline T next_below(T value) {
  if constexpr (!kIsHalf<T>) {
    return std::nextafter(value, -std::numeric_limits<T>::infinity());
  } else {
    const bool negative = (value.bits & 0x8000U) != 0;
    T below = value;
    below.bits = static_cast<std::uint16_t>(negative ? value.bits + 1 : value.bits - 1);
    if (value.bits == 0) below.bits = 0x8001U;
    return below;
  }
}

}  // namespace tessera::kernels
