#include "kernels/pointwise.h"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/float16.h"
#include "kernels/special_functions.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::error_of;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();

using Values = std::vector<double>;

/// One function of lists of equal length, all of `dtype`.
Values apply(std::string_view name, const std::vector<Values>& operands, DType dtype = DType::kF64,
             const Values& params = {0, 0, 0, 0}) {
  KernelContext ctx;
  std::vector<Array> arrays;
  const auto count = static_cast<std::int64_t>(operands[0].size());
  for (const Values& each : operands) arrays.push_back(Array::from_values({count}, dtype, each));
  const Array out = Array::empty({count}, dtype);
  pointwise(ctx, pointwise_function(name), arrays, params, out);
  return out.to_vector();
}

/// Equal, NaN for NaN and zeros of one sign, or near in units of the last place.
void check(const Values& got, const Values& expected, double tolerance = 0.0) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i, got[i], expected[i]);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(got[i]));
    } else if (std::isinf(expected[i]) || expected[i] == 0.0) {
      CHECK(got[i] == expected[i]);
      CHECK(std::signbit(got[i]) == std::signbit(expected[i]));
    } else {
      CHECK(std::abs(got[i] - expected[i]) <= tolerance * std::abs(expected[i]));
    }
  }
}

TEST_CASE("Elementary functions at zeros, infinities and NaN", "[kernels][pointwise]") {
  const Values x = {0.0, -0.0, kInf, -kInf, kNan};
  check(apply("tan", {x}), {0.0, -0.0, kNan, kNan, kNan});
  check(apply("atan", {x}), {0.0, -0.0, 1.5707963267948966, -1.5707963267948966, kNan}, 1e-15);
  check(apply("sinh", {x}), {0.0, -0.0, kInf, -kInf, kNan});
  check(apply("cosh", {x}), {1.0, 1.0, kInf, kInf, kNan});
  check(apply("asinh", {x}), {0.0, -0.0, kInf, -kInf, kNan});
  check(apply("expm1", {x}), {0.0, -0.0, kInf, -1.0, kNan});
  check(apply("exp2", {x}), {1.0, 1.0, kInf, 0.0, kNan});
  check(apply("log1p", {x}), {0.0, -0.0, kInf, kNan, kNan});
  check(apply("log2", {x}), {-kInf, -kInf, kInf, kNan, kNan});
  check(apply("erf", {x}), {0.0, -0.0, 1.0, -1.0, kNan});
  check(apply("erfc", {x}), {1.0, 1.0, 0.0, 2.0, kNan});
  check(apply("asin", {{1.0, -1.0, 1.1, -0.0}}),
        {1.5707963267948966, -1.5707963267948966, kNan, -0.0}, 1e-15);
  check(apply("atanh", {{1.0, -1.0, 1.1, -0.0}}), {kInf, -kInf, kNan, -0.0});
  check(apply("acosh", {{1.0, 0.9, kInf}}), {0.0, kNan, kInf});
  check(apply("trunc", {{1.7, -1.7, -0.5, kInf, kNan}}), {1.0, -1.0, -0.0, kInf, kNan});
  check(apply("round", {{0.5, 1.5, 2.5, -0.5, -2.5, kInf}}), {0.0, 2.0, 2.0, -0.0, -2.0, kInf});
  check(apply("signbit", {x}), {0.0, 1.0, 0.0, 1.0, 0.0});
  check(apply("isinf", {x}), {0.0, 0.0, 1.0, 1.0, 0.0});
  check(apply("isposinf", {x}), {0.0, 0.0, 1.0, 0.0, 0.0});
  check(apply("isneginf", {x}), {0.0, 0.0, 0.0, 1.0, 0.0});
  check(apply("isfinite", {x}), {1.0, 1.0, 0.0, 0.0, 0.0});
  check(apply("nan_to_num", {x}, DType::kF64, {7.0, 8.0, 9.0, 0.0}), {0.0, -0.0, 8.0, 9.0, 7.0});
}

TEST_CASE("Special functions meet tabulated and closed values", "[kernels][pointwise]") {
  constexpr double kEuler = 0.57721566490153286061;
  constexpr double kPi = 3.14159265358979323846;
  check(apply("digamma", {{1.0, 2.0, 0.5, -0.5, 100.5, 0.0, -0.0, -3.0, kInf, -kInf, kNan}}),
        {-kEuler, 1 - kEuler, -kEuler - 2 * std::log(2.0), 2 - kEuler - 2 * std::log(2.0),
         4.605174352581849, -kInf, kInf, kNan, kInf, kNan, kNan},
        2e-14);
  CHECK(trigamma(1.0) == Approx(kPi * kPi / 6).epsilon(1e-14));
  CHECK(trigamma(0.5) == Approx(kPi * kPi / 2).epsilon(1e-14));
  CHECK(trigamma(-0.5) == Approx(kPi * kPi / 2 + 4).epsilon(1e-14));
  for (const double x : {-5.0, -1.3, -0.4, -1e-8, 0.0, 1e-300, 0.2, 0.9, 2.5, 4.0}) {
    CAPTURE(x);
    CHECK(erfinv(std::erf(x)) == Approx(x).epsilon(x > 3.9 || x < -3.9 ? 1e-2 : 1e-12));
  }
  check(apply("erfinv", {{1.0, -1.0, 1.5, kNan, -0.0}}), {kInf, -kInf, kNan, kNan, -0.0});
  check(apply("i0", {{0.0, 1.0, -1.0, 10.0, 800.0, kNan}}),
        {1.0, 1.2660658777520083, 1.2660658777520083, 2815.7166284662544, kInf, kNan}, 1e-14);
  CHECK(bessel_i1(1.0) == Approx(0.56515910399248503).epsilon(1e-14));
  CHECK(bessel_i1(-2.0) == Approx(-1.5906368546373291).epsilon(1e-14));
  check(apply("sinc", {{0.0, 0.5, 1.5}}), {1.0, 2 / kPi, -2 / (3 * kPi)}, 1e-15);
  check(apply("lgamma", {{0.5, 4.0, -0.5, 0.0}}),
        {0.57236494292470009, 1.7917594692280550, 1.2655121234846454, kInf}, 1e-14);
  check(apply("logit", {{0.5, 0.75, 0.0, 1.0}}, DType::kF64, {-1.0, 0, 0, 0}),
        {0.0, std::log(3.0), -kInf, kInf}, 1e-15);
  check(apply("logit", {{0.0, 1.0}}, DType::kF64, {0.25, 0, 0, 0}), {-std::log(3.0), std::log(3.0)},
        1e-15);
}

TEST_CASE("Activations keep NaN, and are exact at their ends", "[kernels][pointwise]") {
  const Values x = {-kInf, -4.0, -0.0, 0.0, 0.5, 7.0, kInf, kNan};
  check(apply("relu6", {x}), {0, 0, -0.0, 0, 0.5, 6, 6, kNan});
  check(apply("hardtanh", {x}, DType::kF64, {-1, 1, 0, 0}), {-1, -1, -0.0, 0, 0.5, 1, 1, kNan});
  check(apply("hardsigmoid", {x}), {0, 0, 0.5, 0.5, 3.5 / 6, 1, 1, kNan}, 1e-15);
  check(apply("hardswish", {x}), {-0.0, -0.0, -0.0, 0, 0.5 * 3.5 / 6, 7, kInf, kNan}, 1e-15);
  check(apply("threshold", {x}, DType::kF64, {0.25, 9, 0, 0}), {9, 9, 9, 9, 0.5, 7, kInf, kNan});
  check(apply("leaky_relu", {x}, DType::kF64, {0.5, 0, 0, 0}),
        {-kInf, -2, -0.0, 0, 0.5, 7, kInf, kNan});
  check(apply("hardshrink", {x}, DType::kF64, {0.5, 0, 0, 0}), {-kInf, -4, 0, 0, 0, 7, kInf, kNan});
  check(apply("softsign", {x}), {-1, -0.8, -0.0, 0, 1.0 / 3, 0.875, 1, kNan}, 1e-15);
  check(apply("celu", {x}, DType::kF64, {2, 0, 0, 0}),
        {-2, 2 * std::expm1(-2.0), -0.0, 0, 0.5, 7, kInf, kNan}, 1e-15);
  check(apply("elu", {x}, DType::kF64, {1, 1, 1, 0}),
        {-1, std::expm1(-4.0), -0.0, 0, 0.5, 7, kInf, kNan}, 1e-15);
  check(apply("log_sigmoid", {x}),
        {-kInf, -4 - std::log1p(std::exp(-4.0)), -std::log(2.0), -std::log(2.0),
         -std::log1p(std::exp(-0.5)), -std::log1p(std::exp(-7.0)), 0.0, kNan},
        1e-15);
  check(apply("softplus", {x}, DType::kF64, {1, 20, 0, 0}),
        {0, std::log1p(std::exp(-4.0)), std::log(2.0), std::log(2.0), std::log1p(std::exp(0.5)),
         std::log1p(std::exp(7.0)), kInf, kNan},
        1e-15);
  const Values mish = apply("mish", {x});
  CHECK(mish[0] == 0.0);
  CHECK(mish[6] == kInf);
  CHECK(std::isnan(mish[7]));
}

TEST_CASE("Functions of two numbers at their edges", "[kernels][pointwise]") {
  check(apply("hypot", {{3, 1e300, kInf, kNan}, {4, 1e300, kNan, 1}}),
        {5, 1.4142135623730951e300, kInf, kNan}, 1e-15);
  check(apply("logaddexp", {{1000, -kInf, kInf, 0, kNan}, {1000, -kInf, kInf, 0, 1}}),
        {1000 + std::log(2.0), -kInf, kInf, std::log(2.0), kNan}, 1e-15);
  check(apply("logaddexp2", {{1000, -kInf, 3}, {1000, -kInf, 3}}), {1001, -kInf, 4}, 1e-15);
  check(apply("xlogy", {{0, 0, 2, 0}, {0, kInf, 3, kNan}}), {0, 0, 2 * std::log(3.0), kNan}, 1e-15);
  check(apply("fmax", {{kNan, 1, kNan}, {2, kNan, kNan}}), {2, 1, kNan});
  check(apply("heaviside", {{-1, 0, -0.0, 2, kNan}, {5, 5, 6, 5, 5}}), {0, 5, 6, 1, 0});
  check(apply("fmod", {{7, -7, 7, 7}, {3, 3, -3, 0}}), {1, -1, 1, kNan});
  check(apply("isclose", {{1, 1, kInf, kInf, kNan}, {1 + 1e-9, 1.1, kInf, -kInf, kNan}},
              DType::kF64, {1e-5, 1e-8, 0, 0}),
        {1, 0, 1, 0, 0});
  check(apply("isclose", {{kNan}, {kNan}}, DType::kF64, {1e-5, 1e-8, 1, 0}), {1});
  check(apply("lerp", {{1, 1, 1}, {0.1, 0.1, 0.1}, {0, 1, 0.5}}), {1, 0.1, 0.55}, 1e-15);
  check(apply("clamp_tensor", {{5, -5, 1, kNan, 1}, {0, 0, 0, 0, kNan}, {2, 2, 2, 2, 2}}),
        {2, 0, 1, kNan, kNan});
  check(apply("binary_cross_entropy", {{0, 1, 0, 0.5}, {1, 1, 0, 0.5}}), {100, 0, 0, std::log(2.0)},
        1e-15);
  check(apply("binary_cross_entropy_with_logits", {{1000, -1000}, {0, 1}}), {1000, 1000});
  check(apply("kl_div", {{-1, -1}, {0, 0.5}}), {0, 0.5 * std::log(0.5) + 0.5}, 1e-15);
}

TEST_CASE("nextafter steps in the operands' own dtype", "[kernels][pointwise]") {
  KernelContext ctx;
  const Array a = Array::from_values({3}, DType::kF32, Values{1, 0, 3.4028234663852886e38});
  const Array b = Array::from_values({3}, DType::kF32, Values{2, -1, kInf});
  const Array out = Array::empty({3}, DType::kF32);
  nextafter(ctx, a, b, out);
  check(out.to_vector(), {1 + 0x1p-23, -0x1p-149, kInf});
  const Array whole = Array::zeros({3}, DType::kI64);
  CHECK(error_of([&] { nextafter(ctx, whole, whole, whole); }) ==
        "nextafter: dtype I64 is not supported; allowed: F64, F32, BF16, F16");
}

TEST_CASE("nextafter steps in the result's dtype, whatever the operands' is",
          "[kernels][pointwise]") {
  KernelContext ctx;
  const Values from = {1, 1, -1, 0, -0.0, kInf, 2, kNan, 1},
               to = {2, 0, -2, -1, 1, 0, 2, 1, 1 + 1e-12};
  const auto stepped = [&](DType dtype) {
    const Array out = Array::empty({9}, dtype);
    nextafter(ctx, Array::from_values({9}, dtype, from), Array::from_values({9}, DType::kF64, to),
              out);
    return out.to_vector();
  };
  check(stepped(DType::kBF16),
        {1 + 0x1p-7, 1 - 0x1p-8, -1 - 0x1p-7, -0x1p-133, 0x1p-133, 0x1.fep127, 2, kNan, 1});
  check(stepped(DType::kF16),
        {1 + 0x1p-10, 1 - 0x1p-11, -1 - 0x1p-10, -0x1p-24, 0x1p-24, 65504, 2, kNan, 1});
  check(stepped(DType::kF32),
        {1 + 0x1p-23, 1 - 0x1p-24, -1 - 0x1p-23, -0x1p-149, 0x1p-149, 0x1.fffffep127, 2, kNan, 1});
}

TEST_CASE("nextafter converts its operands to the result's dtype before it steps",
          "[kernels][pointwise]") {
  KernelContext ctx;
  const Array out = Array::zeros({1}, DType::kF32);
  nextafter(ctx, Array::from_values({1}, DType::kF32, std::vector<double>{-0.75}),
            Array::from_values({}, DType::kF64, std::vector<double>{1.0}), out);
  CHECK(out.to_vector()[0] == -0.7499999403953552);
}

TEST_CASE("Integers wrap, shift and divide as two's complement", "[kernels][pointwise]") {
  check(apply("bitwise_not", {{0, 1, 255}}, DType::kU8), {255, 254, 0});
  check(apply("bitwise_xor", {{12, -1}, {10, 5}}, DType::kI32), {6, -6});
  check(apply("bitwise_left_shift", {{1, 3, -1, 1, 1}, {7, 8, 1, 64, -1}}, DType::kI64),
        {128, 768, -2, 0, 0});
  check(apply("bitwise_left_shift", {{3, 255}, {7, 1}}, DType::kU8), {128, 254});
  check(apply("bitwise_right_shift", {{-8, 7, -1}, {1, 1, 70}}, DType::kI64), {-4, 3, -1});
  check(apply("gcd", {{12, -12, 0, 0}, {18, 18, 5, 0}}, DType::kI64), {6, 6, 5, 0});
  check(apply("lcm", {{4, -4, 0}, {6, 6, 5}}, DType::kI64), {12, 12, 0});
  check(apply("pow_tensor", {{2, -1, 2, 7}, {10, 3, -1, 0}}, DType::kI64), {1024, -1, 0, 1});
  check(apply("fmod", {{7, -7}, {3, 3}}, DType::kI64), {1, -1});
  check(apply("add", {{200, 3}, {100, 2}}, DType::kU8, {1, 0, 0, 0}), {44, 5});
  check(apply("rsub", {{3}, {2}}, DType::kU8, {1, 0, 0, 0}), {255});
  CHECK(error_of([] {
          apply("fmod", {{1}, {0}}, DType::kI64);
        }) ==
        "fmod: a divisor is 0, which integers have no remainder by; cast to a floating dtype for "
        "NaN");
  CHECK(error_of([] {
          apply("gcd", {{1}, {2}}, DType::kF32);
        }) == "gcd: dtype F32 is not supported; allowed: I64, I32, U8, BOOL");
}

TEST_CASE("F16 rounds to nearest even, keeps subnormals and overflows to infinity",
          "[kernels][float16]") {
  const auto round = [](double value) {
    return Array::from_values({1}, DType::kF16, Values{value}).to_vector()[0];
  };
  CHECK(round(1 + 0x1p-11) == 1.0);             // a tie: the even neighbour below
  CHECK(round(1 + 3 * 0x1p-11) == 1 + 0x1p-9);  // a tie: the even neighbour above
  CHECK(round(1 + 0x1.8p-11) == 1 + 0x1p-10);
  CHECK(round(65504) == 65504.0);
  CHECK(round(65519.9) == 65504.0);
  CHECK(round(65520) == kInf);
  CHECK(round(-1e30) == -kInf);
  CHECK(round(0x1p-24) == 0x1p-24);
  CHECK(round(0x1p-25) == 0.0);  // a tie: even is 0
  CHECK(round(0x1.8p-25) == 0x1p-24);
  CHECK(round(3 * 0x1p-25) == 0x1p-23);        // a tie: even is 2 units
  CHECK(round(0x1p-14 - 0x1p-26) == 0x1p-14);  // up to the smallest normal number
  CHECK(std::signbit(round(-0.0)));
  CHECK(std::isnan(round(kNan)));
  CHECK(round(kLargest) == kInf);
  for (std::uint32_t bits = 0; bits < 0x10000;
       ++bits) {  // every half survives the way there and back
    const auto word = static_cast<std::uint16_t>(bits);
    const float value = half_value(word);
    const bool is_nan = (bits & 0x7fffU) > 0x7c00U;
    if (is_nan != std::isnan(value) || (!is_nan && half_bits(value) != word)) {
      FAIL("half " << bits << " does not survive");
    }
  }
}

TEST_CASE("Casts, sums and products take F16 and U8", "[kernels][float16]") {
  KernelContext ctx;
  const Array bytes = Array::from_values({4}, DType::kU8, Values{250, 5, 0, 255});
  const Array more = Array::from_values({4}, DType::kU8, Values{10, 250, 0, 255});
  const Array sums = Array::empty({4}, DType::kU8);
  binary(ctx, Binary::kAdd, bytes, more, sums);
  CHECK(sums.to_vector() == Values{4, 255, 0, 254});
  binary(ctx, Binary::kMul, bytes, more, sums);
  CHECK(sums.to_vector() == Values{196, 226, 0, 1});
  unary(ctx, Unary::kNeg, bytes, sums);
  CHECK(sums.to_vector() == Values{6, 251, 0, 1});
  const Array wide = Array::from_values({4}, DType::kI64, Values{256, -1, 300, 7});
  copy(ctx, wide, sums);
  CHECK(sums.to_vector() == Values{0, 255, 44, 7});
  const Array halves = Array::from_values({2}, DType::kF16, Values{60000, 0.5});
  const Array doubled = Array::empty({2}, DType::kF16);
  binary(ctx, Binary::kAdd, halves, halves, doubled);
  CHECK(doubled.to_vector() == Values{kInf, 1.0});
  const Array truth = Array::empty({4}, DType::kBool);
  copy(ctx, bytes, truth);
  CHECK(truth.to_vector() == Values{1, 1, 0, 1});
}

}  // namespace
}  // namespace tessera
