// kernels/index_functions.h: what index kernels do with one element, for every device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/dtype_switch.h"

namespace tessera::kernels {

// What becomes of an element where a source meets it.

struct Assign {
  template <class T>
  TSR_HOST_DEVICE void operator()(T& to, T from) const {
    to = from;
  }
};
/// Integers wrap, BOOL is "or"; BF16 and F16 never get here (summed in F32).
struct AddTo {
  template <class T>
  TSR_HOST_DEVICE void operator()(T& to, T from) const {
    if constexpr (std::is_same_v<T, bool>) {
      to = to || from;
    } else if constexpr (std::is_integral_v<T>) {
      to = static_cast<T>(static_cast<std::make_unsigned_t<T>>(to) +
                          static_cast<std::make_unsigned_t<T>>(from));
    } else if constexpr (kIsHalf<T>) {
      to = T(static_cast<float>(to) + static_cast<float>(from));
    } else {
      to += from;
    }
  }
};

struct MultiplyBy {
  template <class T>
  TSR_HOST_DEVICE void operator()(T& to, T from) const {
    if constexpr (std::is_same_v<T, bool>) {
      to = to && from;
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      to = static_cast<T>(static_cast<std::uint64_t>(static_cast<Unsigned>(to)) *
                          static_cast<std::uint64_t>(static_cast<Unsigned>(from)));
    } else {
      to = convert<T>(convert<double>(to) * convert<double>(from));
    }
  }
};

template <int kSign>
struct TakeExtreme {
  template <class T>
  TSR_HOST_DEVICE void operator()(T& to, T from) const {
    using C = ComputeType<T>;
    const C a = convert<C>(to);
    const C b = convert<C>(from);
    const bool wins = kSign > 0 ? b > a : b < a;
    if (wins || (b != b && a == a)) to = from;
  }
};

/// Whether a stands before b in an ascending line; NaN above all numbers.
template <class C>
TSR_HOST_DEVICE bool is_less(C a, C b) {
  if constexpr (std::is_floating_point_v<C>) {
    if (b != b) return a == a;
  }
  return a < b;
}

/// Equal bins over [low, high], the last one closed.
struct Bins {
  double low, high, scale;
  std::int64_t count;
  Bins(double from, double to, std::int64_t bins)
      : low(from), high(to), scale(static_cast<double>(bins) / (to - from)), count(bins) {}
  TSR_HOST_DEVICE bool holds(double value) const { return value >= low && value <= high; }
  TSR_HOST_DEVICE std::int64_t bin_of(double value) const {
    const auto bin = convert<std::int64_t>((value - low) * scale);
    return bin < count ? bin : count - 1;
  }
};

}  // namespace tessera::kernels
