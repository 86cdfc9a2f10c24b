// kernels/special_functions.h: functions of one real number that the C library lacks, for every
// device.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/host_device.h"

namespace tessera::kernels::inline TSR_MACHINE {
namespace special {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kPi = 3.14159265358979323846;
// From here on the asymptotic series are exact to the last places.
inline constexpr double kAsymptotic = 10.0;

/// Σ (x/2)^(2k + order) / (k! (k + order)!) for order 0 or 1: all terms have one sign.
TSR_HOST_DEVICE inline double bessel_series(double x, double order) {
  const double half = x / 2.0;
  double term = order == 0.0 ? 1.0 : half;
  double sum = term;
  for (double k = 1.0; k < 1000.0; k += 1.0) {
    term *= half / k * (half / (k + order));
    sum += term;
    if (std::fabs(term) <= std::fabs(sum) * 1e-18) break;
  }
  return sum;
}

}  // namespace special

/// d/dx ln Γ(x); −inf at +0, +inf at −0, NaN at negative integers and −inf.
TSR_HOST_DEVICE inline double digamma(double x) {
  if (x == 0.0) return std::copysign(special::kInf, -x);
  if (x == -special::kInf || (x < 0.0 && x == std::floor(x))) return special::kNan;
  double sum = 0.0;
  if (x < 0.0) {  // ψ(x) = ψ(1 − x) − π / tan(πx)
    double whole = 0.0;
    sum = -special::kPi / std::tan(special::kPi * std::modf(x, &whole));
    x = 1.0 - x;
  }
  for (; x < special::kAsymptotic; x += 1.0) sum -= 1.0 / x;
  const double z = 1.0 / (x * x);
  // Bernoulli numbers B₂ₖ / 2k
  const double tail =
      z * (1.0 / 12 -
           z * (1.0 / 120 -
                z * (1.0 / 252 -
                     z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return sum + std::log(x) - 0.5 / x - tail;
}

/// d²/dx² ln Γ(x) for x that is no pole.
TSR_HOST_DEVICE inline double trigamma(double x) {
  // ψ′(x) = π² / sin²(πx) − ψ′(1 − x)
  const bool is_reflected = x < 0.5;
  const double sine = is_reflected ? std::sin(special::kPi * x) : 1.0;
  if (is_reflected) x = 1.0 - x;
  double sum = 0.0;
  for (; x < special::kAsymptotic; x += 1.0) sum += 1.0 / (x * x);
  const double z = 1.0 / (x * x);
  const double tail =
      z *
      (1.0 / 6 -
       z * (1.0 / 30 -
            z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * (7.0 / 6)))))));
  const double value = sum + (1.0 + 0.5 / x + tail) / x;
  return is_reflected ? special::kPi * special::kPi / (sine * sine) - value : value;
}

/// x with erf(x) = y: ±inf at ±1, NaN beyond.
TSR_HOST_DEVICE inline double erfinv(double y) {
  if (!(std::fabs(y) <= 1.0)) return special::kNan;
  if (std::fabs(y) == 1.0) return std::copysign(special::kInf, y);
  // Source: S. Winitzki 2008, a start of 2e-3 relative; then Halley's steps, each tripling digits.
  constexpr double kA = 0.147;
  const double tail = std::log1p(-y * y);
  const double middle = 2.0 / (special::kPi * kA) + tail / 2.0;
  double x = std::copysign(std::sqrt(std::sqrt(middle * middle - tail / kA) - middle), y);
  for (int step = 0; step < 4; ++step) {
    const double gap =
        y > 0.5 ? (1.0 - y) - std::erfc(x) : (y < -0.5 ? std::erfc(-x) - (1.0 + y) : 0.0);
    const double error = std::fabs(y) > 0.5 ? gap : std::erf(x) - y;
    const double newton = error / (2.0 / std::sqrt(special::kPi) * std::exp(-x * x));
    x -= newton / (1.0 + x * newton);
  }
  return x;
}

/// Modified Bessel functions of the first kind, of order 0 and 1.
TSR_HOST_DEVICE inline double bessel_i0(double x) {
  const double magnitude = std::fabs(x);
  return magnitude > 714.0 ? magnitude + special::kInf : special::bessel_series(magnitude, 0.0);
}
TSR_HOST_DEVICE inline double bessel_i1(double x) {
  return std::fabs(x) > 714.0 ? std::copysign(special::kInf, x) : special::bessel_series(x, 1.0);
}

/// sin(πx) / (πx), 1 at 0; and its derivative.
TSR_HOST_DEVICE inline double sinc(double x) {
  if (x == 0.0) return 1.0;
  const double angle = special::kPi * x;
  return std::sin(angle) / angle;
}
TSR_HOST_DEVICE inline double sinc_slope(double x) {
  const double angle = special::kPi * x;
  if (std::fabs(angle) < 1e-3) return -special::kPi * angle / 3.0 * (1.0 - angle * angle / 10.0);
  return (std::cos(angle) - std::sin(angle) / angle) / x;
}

}  // namespace tessera::kernels::inline TSR_MACHINE
