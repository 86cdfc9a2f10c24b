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
  if (b != 0) return b;
  throw Error(
      out_of_range("fmod: a divisor is 0, which integers have no remainder by; cast to a "
                   "floating dtype for NaN"));
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
/// 0 times a logarithm that does not exist is 0, as in the function itself.
double xlogy_cotangent(double g, double a, double b) {
  return a == 0.0 && b <= 0.0 ? 0.0 : xlogy(g, b);
}
/// At (0, 0), where no angle is, neither operand has a slope.
double atan2_slope(double a, double b) {
  const double square = a * a + b * b;
  return a == 0.0 && b == 0.0 ? 0.0 : b / square;
}
double power_cotangent_base(double g, double a, double b) {
  return when(b != 0.0, g * (b * std::pow(a, b - 1.0)));
}
double power_slope_exponent(double a, double b) {
  return a == 0.0 && b >= 0.0 ? 0.0 : std::pow(a, b) * std::log(a);
}
double scalar_power_slope(double x, Params p) { return power_slope_exponent(p[0], x); }
I integer_power(I base, I exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  U result = 1;
  for (U factor = static_cast<U>(base); exponent > 0; exponent /= 2, factor *= factor) {
    if (exponent % 2 != 0) result *= factor;
  }
  return static_cast<I>(result);
}
double copysign_cotangent(double g, double a, double b) {
  return when(a != 0.0, g * (std::copysign(1.0, b) * std::copysign(1.0, a)));
}
/// A divisor that goes into a number no time has no influence on the remainder.
double divisor_cotangent(double g, double times) { return when(times != 0.0, -g * times); }
double fmod_divisor_cotangent(double g, double a, double b) {
  return divisor_cotangent(g, std::trunc(a / b));
}
double remainder_divisor_cotangent(double g, double a, double b) {
  return divisor_cotangent(g, std::round((a - remainder(a, b)) / b));
}
/// What reaches the first of two operands of which one is chosen: equal ones share, and both are
/// the cause of a NaN, which wins.
double maximum_cotangent(double g, double a, double b) {
  return when(!(a < b), g * (a == b ? 0.5 : 1.0));
}
double minimum_cotangent(double g, double a, double b) { return maximum_cotangent(g, b, a); }
/// The same where a NaN loses: of two the first is chosen.
double fmax_first(double g, double a, double b) {
  return when((a >= b) | (b != b), g * (a == b ? 0.5 : 1.0));
}
double fmax_second(double g, double a, double b) {
  return when(!((a > b) | (b != b)), g * (a == b ? 0.5 : 1.0));
}

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
/// Of an element and its bounds the one that is the result; the element shares with a bound that
/// it equals, unless the bounds leave it no room.
double clamp_cotangent(double g, double x, double low, double high) {
  if (x < low || x > high) return 0.0;
  return low < high && (x == low || x == high) ? 0.5 * g : g;
}
double clamp_cotangent_min(double g, double x, double low, double high) {
  if (x < low && low <= high) return g;
  return x == low && low < high ? 0.5 * g : 0.0;
}
double clamp_cotangent_max(double g, double x, double low, double high) {
  if (std::isnan(low) || std::isnan(high)) return 0.0;
  if (low > high || x > high) return g;
  return x == high && low < high ? 0.5 * g : 0.0;
}
I clamp_integers(I x, I low, I high) {
  const I raised = x < low ? low : x;
  return raised > high ? high : raised;
}
/// From the nearer end, so that both ends are met exactly. Source: torch.
double lerp(double a, double b, double w) {
  return std::fabs(w) < 0.5 ? a + w * (b - a) : b + (b - a) * (w - 1.0);
}
I scaled(I x, Params p) { return wrapped_product(x, convert<I>(p[0])); }

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
           return wrapped_sum(convert<I>(p[0]),
                              wrapped_negative(wrapped_product(x, convert<I>(p[1]))));
         }>("rsub_scalar"),
    both<1, [](double x, Params p) { return std::fmod(x, p[0]); },
         [](I x, Params p) { return integer_fmod(x, convert<I>(p[0])); }>("fmod_scalar"),

    slope<2, atan2_slope>("atan2'0"),
    slope<2, [](double a, double b) { return -atan2_slope(b, a); }>("atan2'1"),
    slope<2, [](double, double) { return 1.0; }>("fmod'0"),
    cotangent<2, fmod_divisor_cotangent>("fmod'1"),
    slope<2, [](double, double) { return 1.0; }>("remainder'0"),
    cotangent<2, remainder_divisor_cotangent>("remainder'1"),
    slope<2, [](double a, double b) { return a / std::hypot(a, b); }>("hypot'0"),
    slope<2, [](double a, double b) { return b / std::hypot(a, b); }>("hypot'1"),
    cotangent<2, copysign_cotangent>("copysign'0"),
    cotangent<2, [](double, double, double) { return 0.0; }>("copysign'1"),
    slope<2, [](double, double b) { return std::exp2(b); }>("ldexp'0"),
    slope<2, [](double a, double b) { return a * kLn2 * std::exp2(b); }>("ldexp'1"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp(b - a)); }>("logaddexp'0"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp(a - b)); }>("logaddexp'1"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp2(b - a)); }>("logaddexp2'0"),
    slope<2, [](double a, double b) { return 1.0 / (1.0 + std::exp2(a - b)); }>("logaddexp2'1"),
    cotangent<2, xlogy_cotangent>("xlogy'0"),
    slope<2, [](double a, double b) { return a / b; }>("xlogy'1"),
    cotangent<2, power_cotangent_base>("pow_tensor'0"),
    slope<2, power_slope_exponent>("pow_tensor'1"),
    cotangent<2, power_cotangent_base>("float_power'0"),
    slope<2, power_slope_exponent>("float_power'1"),
    cotangent<2, maximum_cotangent>("maximum'0"),
    cotangent<2, minimum_cotangent>("maximum'1"),
    cotangent<2, minimum_cotangent>("minimum'0"),
    cotangent<2, maximum_cotangent>("minimum'1"),
    cotangent<2, fmax_first>("fmax'0"),
    cotangent<2, fmax_second>("fmax'1"),
    cotangent<2, [](double g, double a, double b) { return fmax_first(g, -a, -b); }>("fmin'0"),
    cotangent<2, [](double g, double a, double b) { return fmax_second(g, -a, -b); }>("fmin'1"),
    cotangent<3, clamp_cotangent>("clamp_tensor'0"),
    cotangent<3, clamp_cotangent_min>("clamp_tensor'1"),
    cotangent<3, clamp_cotangent_max>("clamp_tensor'2"),
    slope<1, scalar_power_slope>("scalar_pow'0"),
    slope<1, [](double, Params p) { return -p[1]; }>("rsub_scalar'0"),
    slope<1, [](double, Params) { return 1.0; }>("fmod_scalar'0"),
};

}  // namespace

std::span<const Pointwise> pair_functions() { return kFunctions; }

}  // namespace tessera::kernels
