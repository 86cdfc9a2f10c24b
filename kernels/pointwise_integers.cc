// Functions of integers only.
#include "kernels/pointwise_table.h"

namespace tessera::kernels {
namespace {

using I = std::int64_t;
using U = std::uint64_t;

constexpr I kBits = 64;

I gcd(I a, I b) {
  U x = a < 0 ? U{0} - static_cast<U>(a) : static_cast<U>(a);
  U y = b < 0 ? U{0} - static_cast<U>(b) : static_cast<U>(b);
  while (y != 0) {
    const U rest = x % y;
    x = y;
    y = rest;
  }
  return static_cast<I>(x);
}
I lcm(I a, I b) {
  const I divisor = gcd(a, b);
  if (divisor == 0) return 0;
  const U product = static_cast<U>(a / divisor) * static_cast<U>(b);
  const auto value = static_cast<I>(product);
  return value < 0 ? static_cast<I>(U{0} - product) : value;
}
/// All bits are gone beyond the word, and a negative count counts as beyond it. Source: torch.
I shift_left(I x, I by) {
  return by < 0 || by >= kBits ? 0 : static_cast<I>(static_cast<U>(x) << by);
}
I shift_right(I x, I by) { return x >> (by < 0 || by >= kBits ? kBits - 1 : by); }

constexpr Pointwise kFunctions[] = {
    integral<2, [](I a, I b) { return a & b; }>("bitwise_and"),
    integral<2, [](I a, I b) { return a | b; }>("bitwise_or"),
    integral<2, [](I a, I b) { return a ^ b; }>("bitwise_xor"),
    integral<2, shift_left>("bitwise_left_shift"),
    integral<2, shift_right>("bitwise_right_shift"),
    integral<2, gcd>("gcd"),
    integral<2, lcm>("lcm"),
    integral<1, [](I x, Params p) { return x & convert<I>(p[0]); }>("bitwise_and_scalar"),
    integral<1, [](I x, Params p) { return x | convert<I>(p[0]); }>("bitwise_or_scalar"),
    integral<1, [](I x, Params p) { return x ^ convert<I>(p[0]); }>("bitwise_xor_scalar"),
};

}  // namespace

std::span<const Pointwise> integer_functions() { return kFunctions; }

}  // namespace tessera::kernels
