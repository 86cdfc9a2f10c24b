// placement/checked_int.h: whole numbers whose arithmetic cannot wrap: the sizes that a call's
// shapes and attributes would make, before it is known that they could be.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>

#include "placement/api.h"

namespace tessera TSR_API {

/// Sums, differences and products of 64-bit numbers, exact to 2^120 and held there beyond.
class CheckedInt {
 public:
  constexpr CheckedInt(std::int64_t value) noexcept : value_(value) {}

  /// The number, or the nearest that 64 bits hold: a size so large is refused as any other.
  constexpr std::int64_t clamped() const noexcept {
    constexpr Wide least = std::numeric_limits<std::int64_t>::min();
    constexpr Wide most = std::numeric_limits<std::int64_t>::max();
    return static_cast<std::int64_t>(std::clamp(value_, least, most));
  }

  friend constexpr CheckedInt operator+(CheckedInt a, CheckedInt b) noexcept {
    return held(a.value_ + b.value_);
  }
  friend constexpr CheckedInt operator-(CheckedInt a, CheckedInt b) noexcept {
    return held(a.value_ - b.value_);
  }
  friend constexpr CheckedInt operator*(CheckedInt a, CheckedInt b) noexcept {
    Wide product = 0;
    if (!__builtin_mul_overflow(a.value_, b.value_, &product)) return held(product);
    return held((a.value_ < 0) == (b.value_ < 0) ? kLimit : -kLimit);
  }
  /// Rounded towards 0. Requires b != 0.
  friend constexpr CheckedInt operator/(CheckedInt a, CheckedInt b) noexcept {
    return held(a.value_ / b.value_);
  }
  constexpr CheckedInt& operator+=(CheckedInt other) noexcept { return *this = *this + other; }
  constexpr CheckedInt& operator*=(CheckedInt other) noexcept { return *this = *this * other; }
  constexpr bool operator==(const CheckedInt&) const noexcept = default;
  constexpr std::strong_ordering operator<=>(const CheckedInt& other) const noexcept {
    return value_ < other.value_   ? std::strong_ordering::less
           : value_ > other.value_ ? std::strong_ordering::greater
                                   : std::strong_ordering::equal;
  }

 private:
  __extension__ using Wide = __int128;
  static constexpr Wide kLimit = Wide{1} << 120;
  static constexpr CheckedInt held(Wide value) noexcept {
    CheckedInt result(0);
    result.value_ = std::clamp(value, -kLimit, kLimit);
    return result;
  }

  Wide value_;
};
static_assert((CheckedInt(4611686018427387905) * 4).clamped() ==
              std::numeric_limits<std::int64_t>::max());
static_assert((CheckedInt(std::numeric_limits<std::int64_t>::min()) - 1 + 1).clamped() ==
              std::numeric_limits<std::int64_t>::min());

}  // namespace tessera
