// Functions of one number and their slopes.
#include "kernels/pointwise_table.h"
#include "kernels/special_functions.h"

namespace tessera::kernels {
namespace {

double logit(double x, Params p) {
  const double eps = p[0];
  const double z = eps < 0.0 ? x : (x < eps ? eps : (x > 1.0 - eps ? 1.0 - eps : x));
  return std::log(z / (1.0 - z));
}
double logit_cotangent(double g, double x, Params p) {
  const double eps = p[0];
  if (eps < 0.0) return x < 0.0 || x > 1.0 ? kNan : g / (x * (1.0 - x));
  return x < eps || x > 1.0 - eps ? 0.0 : g / (x * (1.0 - x));
}
double nan_to_num(double x, Params p) {
  if (std::isnan(x)) return p[0];
  return std::isinf(x) ? (x > 0.0 ? p[1] : p[2]) : x;
}
double round_even(double x) { return std::nearbyint(x); }

constexpr double kRootPi = 1.7724538509055160273;
constexpr double kLn10 = 2.30258509299404568402;

constexpr auto identity = [](auto x) { return x; };
constexpr auto never = [](std::int64_t) { return 0; };
constexpr auto always = [](std::int64_t) { return 1; };

constexpr Pointwise kFunctions[] = {
    floating<1, [](double x) { return std::tan(x); }>("tan"),
    floating<1, [](double x) { return std::asin(x); }>("asin"),
    floating<1, [](double x) { return std::acos(x); }>("acos"),
    floating<1, [](double x) { return std::atan(x); }>("atan"),
    floating<1, [](double x) { return std::sinh(x); }>("sinh"),
    floating<1, [](double x) { return std::cosh(x); }>("cosh"),
    floating<1, [](double x) { return std::asinh(x); }>("asinh"),
    floating<1, [](double x) { return std::acosh(x); }>("acosh"),
    floating<1, [](double x) { return std::atanh(x); }>("atanh"),
    floating<1, [](double x) { return std::exp2(x); }>("exp2"),
    floating<1, [](double x) { return std::expm1(x); }>("expm1"),
    floating<1, [](double x) { return std::log2(x); }>("log2"),
    floating<1, [](double x) { return std::log10(x); }>("log10"),
    floating<1, [](double x) { return std::log1p(x); }>("log1p"),
    floating<1, [](double x) { return std::erf(x); }>("erf"),
    floating<1, [](double x) { return std::erfc(x); }>("erfc"),
    floating<1, erfinv>("erfinv"),
    floating<1,
             [](double x) {
               int sign = 0;
               return lgamma_r(x, &sign);
             }>("lgamma"),
    floating<1, digamma>("digamma"),
    floating<1, sinc>("sinc"),
    floating<1, bessel_i0>("i0"),
    floating<1, logit>("logit"),
    floating<1, [](double x) { return x * (kPi / 180.0); }>("deg2rad"),
    floating<1, [](double x) { return x * (180.0 / kPi); }>("rad2deg"),
    both<1, [](double x) { return std::trunc(x); }, identity>("trunc"),
    both<1, round_even, identity>("round"),
    floating<1, [](double x) { return x - std::trunc(x); }>("frac"),
    any<1, identity>("positive"),
    both<1, nan_to_num, identity>("nan_to_num"),
    both<1, [](double x) { return std::signbit(x) ? 1.0 : 0.0; },
         [](std::int64_t x) { return x < 0; }>("signbit"),
    both<1, [](double x) { return std::isinf(x) ? 1.0 : 0.0; }, never>("isinf"),
    both<1, [](double x) { return std::isfinite(x) ? 1.0 : 0.0; }, always>("isfinite"),
    both<1, [](double x) { return x == kInf ? 1.0 : 0.0; }, never>("isposinf"),
    both<1, [](double x) { return x == -kInf ? 1.0 : 0.0; }, never>("isneginf"),
    integral<1, [](std::int64_t x) { return ~x; }>("bitwise_not"),
};

constexpr Pointwise kSlopes[] = {
    slope<1, [](double x) { return 1.0 + std::tan(x) * std::tan(x); }>("tan'0"),
    slope<1, [](double x) { return 1.0 / std::sqrt(1.0 - x * x); }>("asin'0"),
    slope<1, [](double x) { return -1.0 / std::sqrt(1.0 - x * x); }>("acos'0"),
    slope<1, [](double x) { return 1.0 / (1.0 + x * x); }>("atan'0"),
    slope<1, [](double x) { return std::cosh(x); }>("sinh'0"),
    slope<1, [](double x) { return std::sinh(x); }>("cosh'0"),
    slope<1, [](double x) { return 1.0 / std::sqrt(1.0 + x * x); }>("asinh'0"),
    slope<1, [](double x) { return 1.0 / std::sqrt(x * x - 1.0); }>("acosh'0"),
    slope<1, [](double x) { return 1.0 / (1.0 - x * x); }>("atanh'0"),
    slope<1, [](double x) { return kLn2 * std::exp2(x); }>("exp2'0"),
    slope<1, [](double x) { return std::exp(x); }>("expm1'0"),
    cotangent<1, [](double g, double x) { return g / (x * kLn2); }>("log2'0"),
    cotangent<1, [](double g, double x) { return g / (x * kLn10); }>("log10'0"),
    slope<1, [](double x) { return 1.0 / (1.0 + x); }>("log1p'0"),
    slope<1, [](double x) { return 2.0 / kRootPi * std::exp(-x * x); }>("erf'0"),
    slope<1, [](double x) { return -2.0 / kRootPi * std::exp(-x * x); }>("erfc'0"),
    slope<1, [](double y) { return kRootPi / 2.0 * std::exp(erfinv(y) * erfinv(y)); }>("erfinv'0"),
    slope<1, digamma>("lgamma'0"),
    slope<1, trigamma>("digamma'0"),
    cotangent<1, [](double g, double x) { return when(x != 0.0, g * sinc_slope(x)); }>("sinc'0"),
    slope<1, bessel_i1>("i0'0"),
    cotangent<1, logit_cotangent>("logit'0"),
    slope<1, [](double) { return kPi / 180.0; }>("deg2rad'0"),
    slope<1, [](double) { return 180.0 / kPi; }>("rad2deg'0"),
    slope<1, [](double) { return 1.0; }>("frac'0"),
    slope<1, [](double) { return 1.0; }>("positive'0"),
    cotangent<1, [](double g, double x) { return when(std::isfinite(x), g); }>("nan_to_num'0"),
};

}  // namespace

std::span<const Pointwise> elementary_functions() { return kFunctions; }
std::span<const Pointwise> elementary_slopes() { return kSlopes; }

}  // namespace tessera::kernels
