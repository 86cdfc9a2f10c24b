// kernels/pointwise_integers.h: functions of integers only.
#pragma once

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"
#include "kernels/pointwise_pairs.h"

namespace tessera::kernels::scalar::inline TSR_MACHINE {

TSR_HOST_DEVICE inline I gcd(I a, I b) {
  U x = a < 0 ? U{0} - static_cast<U>(a) : static_cast<U>(a);
  U y = b < 0 ? U{0} - static_cast<U>(b) : static_cast<U>(b);
  while (y != 0) {
    const U rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<I>(x);
}
TSR_HOST_DEVICE inline I lcm(I a, I b) {
  const I divisor = gcd(a, b);
  if (divisor == 0) return 0;
  const U product = static_cast<U>(a / divisor) * static_cast<U>(b);
  const auto value = static_cast<I>(product);
  return value < 0 ? static_cast<I>(U{0} - product) : value;
}
inline constexpr I kBits = 64;
/// All bits are gone beyond the word, and a negative count counts as beyond it. Source: torch.
TSR_HOST_DEVICE inline I shift_left(I x, I by) {
  return by < 0 || by >= kBits ? 0 : static_cast<I>(static_cast<U>(x) << by);
}
TSR_HOST_DEVICE inline I shift_right(I x, I by) {
  return x >> (by < 0 || by >= kBits ? kBits - 1 : by);
}

TSR_POINTWISE(BitwiseAnd, (I a, I b), a& b);
TSR_POINTWISE(BitwiseOr, (I a, I b), a | b);
TSR_POINTWISE(BitwiseXor, (I a, I b), a ^ b);
TSR_POINTWISE(ShiftLeft, (I x, I by), shift_left(x, by));
TSR_POINTWISE(ShiftRight, (I x, I by), shift_right(x, by));
TSR_POINTWISE(Gcd, (I a, I b), gcd(a, b));
TSR_POINTWISE(Lcm, (I a, I b), lcm(a, b));
TSR_POINTWISE(BitwiseAndScalar, (I x, Params p), x& convert<I>(p[0]));
TSR_POINTWISE(BitwiseOrScalar, (I x, Params p), x | convert<I>(p[0]));
TSR_POINTWISE(BitwiseXorScalar, (I x, Params p), x ^ convert<I>(p[0]));

struct IntegerFunctions {
  static constexpr auto kFamily = PointwiseFamily::kIntegers;
  static constexpr PointwiseList kEntries = {Integral<2, BitwiseAnd>{"bitwise_and"},
                                             Integral<2, BitwiseOr>{"bitwise_or"},
                                             Integral<2, BitwiseXor>{"bitwise_xor"},
                                             Integral<2, ShiftLeft>{"bitwise_left_shift"},
                                             Integral<2, ShiftRight>{"bitwise_right_shift"},
                                             Integral<2, Gcd>{"gcd"},
                                             Integral<2, Lcm>{"lcm"},
                                             Integral<1, BitwiseAndScalar>{"bitwise_and_scalar"},
                                             Integral<1, BitwiseOrScalar>{"bitwise_or_scalar"},
                                             Integral<1, BitwiseXorScalar>{"bitwise_xor_scalar"}};
};

}  // namespace tessera::kernels::scalar::inline TSR_MACHINE
