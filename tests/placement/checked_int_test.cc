// Sizes that a call would make, computed without wrapping; and sizes that no tensor has.
#include "placement/checked_int.h"

#include "placement/spec.h"

namespace tessera {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kNumbers[] = {kLeast, kLeast + 1, -(1LL << 62), -(1LL << 32), -3,   -1, 0, 1,
                                     7,      1LL << 31,  1LL << 62,    kMost - 1,    kMost};

/// The true result of an operation, or what lies nearest to it in 64 bits.
template <class Wide>
std::int64_t nearest(Wide exact) {
  return exact > kMost ? kMost : exact < kLeast ? kLeast : static_cast<std::int64_t>(exact);
}

}  // namespace

TEST_CASE("sums, differences and products of any two numbers are exact or held at the end",
          "[placement][checked_int]") {
  __extension__ using Wide = __int128;
  for (const std::int64_t a : kNumbers) {
    for (const std::int64_t b : kNumbers) {
      CAPTURE(a, b);
      CHECK((CheckedInt(a) + b).clamped() == nearest(Wide(a) + b));
      CHECK((CheckedInt(a) - b).clamped() == nearest(Wide(a) - b));
      CHECK((CheckedInt(a) * b).clamped() == nearest(Wide(a) * b));
      CHECK((CheckedInt(a) < b) == (a < b));
      CHECK((CheckedInt(a) == b) == (a == b));
      if (b != 0) CHECK((CheckedInt(a) / b).clamped() == nearest(Wide(a) / b));
    }
  }
}

TEST_CASE("what lies far beyond 64 bits keeps its sign and its order", "[placement][checked_int]") {
  CheckedInt huge = kMost;
  for (int i = 0; i < 5; ++i) huge *= kMost;
  CHECK(huge.clamped() == kMost);
  CHECK(huge > kMost);
  CHECK((huge * -1).clamped() == kLeast);
  CHECK((huge * -1) < kLeast);
  CHECK((huge * 0).clamped() == 0);
  // A window: size + 2 padding - dilation (kernel - 1) - 1.
  const CheckedInt span = CheckedInt(kMost) + CheckedInt(2) * kMost - CheckedInt(kMost) * 3 - 1;
  CHECK(span.clamped() == -1);
}

TEST_CASE("no tensor has more than 2^62 bytes, whatever its empty dims hide",
          "[placement][checked_int]") {
  const auto fits = [](const Shape& shape, DType dtype) {
    return check_tensor_size(view_of(shape), dtype).ok();
  };
  CHECK(fits({1LL << 62}, DType::kU8));
  CHECK(!fits({(1LL << 62) + 1}, DType::kU8));
  CHECK(fits({1LL << 59}, DType::kF64));
  CHECK(!fits({1LL << 60}, DType::kF64));
  CHECK(fits({0, 1LL << 59}, DType::kF64));
  CHECK(!fits({0, 1LL << 40, 1LL << 40}, DType::kF64));
  CHECK(!fits({-1}, DType::kF64));
  CHECK(fits({}, DType::kF64));
  CHECK(!fits(Shape(65, 1), DType::kF64));
}

}  // namespace tessera
