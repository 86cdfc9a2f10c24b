// Functions of two and three numbers, and their slopes; in floating types, some in integers too.
#include "kernels/pointwise_table.h"

namespace tessera::kernels {
namespace {

using I = std::int64_t;
using U = std::uint64_t;

I wrapped_product(I a, I b) { return static_cast<I>(static_cast<U>(a) * static_cast<U>(b)); }
I wrapped_sum(I a, I b) { return static_cast<I>(static_cast<U>(a) + static_cast<U>(b)); }
I wrapped_negative(I a) { return static_cast<I>(U{0} - static_cast<U>(a)); }

/// Rounding towards −∞, with a remainder of the divisor's sign. Source: Python.
double remainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
I divisor(I b) {
  if (b == 0) throw Error(out_of_range("integer division by zero"));
  return b;
}
I larger(I a, I b) { return a > b ? a : b; }
I smaller(I a, I b) { return a < b ? a : b; }
I integer_fmod(I a, I b) { return divisor(b) == -1 ? 0 : a % b; }

double logaddexp(double a, double b) {
  if (std::isinf(a) && a == b) return a;
  const double most = a > b ? a : b;
  return most + std::log1p(std::exp(-std::fabs(a - b)));
}
double logaddexp2(double a, double b) {
  if (std::isinf(a) && a == b) return a;
  const double most = a > b ? a : b;
  return most + std::log1p(std::exp2(-std::fabs(a - b))) / kLn2;
}
double xlogy(double a, double b) {
  if (std::isnan(b)) return b;
  return a == 0.0 ? 0.0 : a * std::log(b);
}
double power_slope_base(double a, double b) { return b == 0.0 ? 0.0 : b * std::pow(a, b - 1.0); }
double power_slope_exponent(double a, double b) {
  return a == 0.0 && b >= 0.0 ? 0.0 : std::pow(a, b) * std::log(a);
}
I integer_power(I base, I exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  U result = 1;
  for (U factor = static_cast<U>(base); exponent > 0; exponent /= 2, factor *= factor) {
    if (exponent % 2 != 0) result *= factor;
  }
  return static_cast<I>(result);
}
double copysign_slope(double a, double b) {
  return a == 0.0 ? 0.0 : std::copysign(1.0, b) * std::copysign(1.0, a);
}
/// 1 where the first is the result.
double fmax_slope(double a, double b) { return a >= b || std::isnan(b) ? 1.0 : 0.0; }
double fmin_slope(double a, double b) { return a <= b || std::isnan(b) ? 1.0 : 0.0; }

double isclose(double a, double b, Params p) {
  if (a == b || (p[2] != 0.0 && std::isnan(a) && std::isnan(b))) return 1.0;
  const double gap = std::fabs(a - b);
  return std::isfinite(gap) && gap <= p[1] + std::fabs(p[0] * b) ? 1.0 : 0.0;
}
double clamp_pair(double x, double low, double high) {
  if (std::isnan(low) || std::isnan(high)) return kNan;
  const double raised = x < low ? low : x;
  return raised > high ? high : raised;
}
I clamp_integers(I x, I low, I high) {
  const I raised = x < low ? low : x;
  return raised > high ? high : raised;
}
/// From the nearer end, so that both ends are met exactly. Source: torch.
double lerp(double a, double b, double w) {
  return std::fabs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (1.0 - w);
}
I scaled(I x, Params p) { return wrapped_product(x, static_cast<I>(p[0])); }

constexpr Pointwise kFunctions[] = {
    floating<2, [](double a, double b) { return std::atan2(a, b); }>("atan2"),
    both<2, [](double a, double b) { return std::fmod(a, b); }, integer_fmod>("fmod"),
    floating<2, [](double a, double b) { return std::hypot(a, b); }>("hypot"),
    floating<2, [](double a, double b) { return std::copysign(a, b); }>("copysign"),
    floating<2, [](double a, double b) { return a * std::exp2(b); }>("ldexp"),
    floating<2, logaddexp>("logaddexp"),
    floating<2, logaddexp2>("logaddexp2"),
    floating<2, xlogy>("xlogy"),
    both<2, [](double a, double b) { return std::pow(a, b); }, integer_power>("pow_tensor"),
    floating<2, [](double a, double b) { return std::pow(a, b); }>("float_power"),
    both<2, [](double a, double b) { return std::fmax(a, b); }, larger>("fmax"),
    both<2, [](double a, double b) { return std::fmin(a, b); }, smaller>("fmin"),
    any<2, [](auto x,
              auto at_zero) { return x == 0 ? at_zero : static_cast<decltype(x)>(x > 0 ? 1 : 0); }>(
        "heaviside"),
    both<2, isclose,
         [](I a, I b, Params p) {
           return isclose(static_cast<double>(a), static_cast<double>(b), p) != 0.0;
         }>("isclose"),
    any<2, [](auto a, auto b) { return (a != 0) != (b != 0) ? 1 : 0; }>("logical_xor"),
    both<2, [](double a, double b, Params p) { return a + p[0] * b; },
         [](I a, I b, Params p) { return wrapped_sum(a, scaled(b, p)); }>("add"),
    both<2, [](double a, double b, Params p) { return a - p[0] * b; },
         [](I a, I b, Params p) { return wrapped_sum(a, wrapped_negative(scaled(b, p))); }>("sub"),
    both<2, [](double a, double b, Params p) { return b - p[0] * a; },
         [](I a, I b, Params p) { return wrapped_sum(b, wrapped_negative(scaled(a, p))); }>("rsub"),
    both<3, clamp_pair, clamp_integers>("clamp_tensor"),
    floating<3, lerp>("lerp"),
    floating<2, [](double a, double b, Params p) { return lerp(a, b, p[0]); }>("lerp_scalar"),
    both<3, [](double a, double b, double c, Params p) { return a + p[0] * b * c; },
         [](I a, I b, I c, Params p) { return wrapped_sum(a, wrapped_product(scaled(b, p), c)); }>(
        "addcmul"),
    floating<3, [](double a, double b, double c, Params p) { return a + p[0] * (b / c); }>(
        "addcdiv"),
    floating<1, [](double x, Params p) { return std::pow(p[0], x); }>("scalar_pow"),
    both<1, [](double x, Params p) { return p[0] - p[1] * x; },
         [](I x, Params p) {
           return wrapped_sum(static_cast<I>(p[0]),
                              wrapped_negative(wrapped_product(x, static_cast<I>(p[1]))));
         }>("rsub_scalar"),
    both<1, [](double x, Params p) { return std::fmod(x, p[0]); },
         [](I x, Params p) { return integer_fmod(x, static_cast<I>(p[0])); }>("fmod_scalar"),

    slope<2, [](double a, double b) { return b / (a * a + b * b); }>("atan2'0"),
    slope<2, [](double a, double b) { return -a / (a * a + b * b); }>("atan2'1"),
    slope<2, [](double, double) { return 1.0; }>("fmod'0"),
    slope<2, [](double a, double b) { return -std::trunc(a / b); }>("fmod'1"),
    slope<2, [](double, double) { return 1.0; }>("remainder'0"),
    slope<2, [](double a, double b) { return -std::round((a - remainder(a, b)) / b); }>(
        "remainder'1"),
    slope<2, [](double a, double b) { return a / std::hypot(a, b); }>("hypot'0"),
    slope<2, [](double a, double b) { return b / std::hypot(a, b); }>("hypot'1"),
    slope<2, copysign_slope>("copysign'0"),
    slope<2, [](double, double) { return 0.0; }>("copysign'1"),
    slope<2, [](double, double b) { return std::exp2(b); }>("ldexp'0"),
    slope<2, [](double a, double b) { return a * kLn2 * std::exp2(b); }>("ldexp'1"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp(b - a)); }>("logaddexp'0"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp(a - b)); }>("logaddexp'1"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp2(b - a)); }>("logaddexp2'0"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp2(a - b)); }>("logaddexp2'1"),
    slope<2, [](double a, double b) { return a == 0.0 && b <= 0.0 ? 0.0 : std::log(b); }>(
        "xlogy'0"),
    slope<2, [](double a, double b) { return a / b; }>("xlogy'1"),
    slope<2, power_slope_base>("pow_tensor'0"),
    slope<2, power_slope_exponent>("pow_tensor'1"),
    slope<2, power_slope_base>("float_power'0"),
    slope<2, power_slope_exponent>("float_power'1"),
    slope<2, fmax_slope>("fmax'0"),
    slope<2, [](double a, double b) { return 1.0 - fmax_slope(a, b); }>("fmax'1"),
    slope<2, fmin_slope>("fmin'0"),
    slope<2, [](double a, double b) { return 1.0 - fmin_slope(a, b); }>("fmin'1"),
    slope<1, [](double x, Params p) { return std::pow(p[0], x) * std::log(p[0]); }>("scalar_pow'0"),
    slope<1, [](double, Params p) { return -p[1]; }>("rsub_scalar'0"),
    slope<1, [](double, Params) { return 1.0; }>("fmod_scalar'0"),
};

}  // namespace

std::span<const Pointwise> pair_functions() { return kFunctions; }

}  // namespace tessera::kernels
