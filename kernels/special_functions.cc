#include "kernels/special_functions.h"

#include <cmath>
#include <limits>

namespace tessera::kernels {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;
// From here on the asymptotic series are exact to the last places.
constexpr double kAsymptotic = 10.0;

/// Σ (x/2)^(2k + order) / (k! (k + order)!) for order 0 or 1: all terms have one sign.
double bessel_series(double x, double order) {
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

}  // namespace

double digamma(double x) {
  if (x == 0.0) return std::copysign(kInf, -x);
  if (x == -kInf || (x < 0.0 && x == std::floor(x))) return kNan;
  double sum = 0.0;
  if (x < 0.0) {  // ψ(x) = ψ(1 − x) − π / tan(πx)
    double whole = 0.0;
    sum = -kPi / std::tan(kPi * std::modf(x, &whole));
    x = 1.0 - x;
  }
  for (; x < kAsymptotic; x += 1.0) sum -= 1.0 / x;
  const double z = 1.0 / (x * x);
  // Bernoulli numbers B₂ₖ / 2k
  const double tail =
      z * (1.0 / 12 -
           z * (1.0 / 120 -
                z * (1.0 / 252 -
                     z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return sum + std::log(x) - 0.5 / x - tail;
}

double trigamma(double x) {
  if (x < 0.5) {  // ψ′(x) = π² / sin²(πx) − ψ′(1 − x)
    const double sine = std::sin(kPi * x);
    return kPi * kPi / (sine * sine) - trigamma(1.0 - x);
  }
  double sum = 0.0;
  for (; x < kAsymptotic; x += 1.0) sum += 1.0 / (x * x);
  const double z = 1.0 / (x * x);
  const double tail =
      z *
      (1.0 / 6 -
       z * (1.0 / 30 -
            z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * (7.0 / 6)))))));
  return sum + (1.0 + 0.5 / x + tail) / x;
}

double erfinv(double y) {
  if (!(std::fabs(y) <= 1.0)) return kNan;
  if (std::fabs(y) == 1.0) return std::copysign(kInf, y);
  // Source: S. Winitzki 2008, a start of 2e-3 relative; then Halley's steps, each tripling digits.
  constexpr double kA = 0.147;
  const double tail = std::log1p(-y * y);
  const double middle = 2.0 / (kPi * kA) + tail / 2.0;
  double x = std::copysign(std::sqrt(std::sqrt(middle * middle - tail / kA) - middle), y);
  for (int step = 0; step < 4; ++step) {
    const double gap =
        y > 0.5 ? (1.0 - y) - std::erfc(x) : (y < -0.5 ? std::erfc(-x) - (1.0 + y) : 0.0);
    const double error = std::fabs(y) > 0.5 ? gap : std::erf(x) - y;
    const double newton = error / (2.0 / std::sqrt(kPi) * std::exp(-x * x));
    x -= newton / (1.0 + x * newton);
  }
  return x;
}

double bessel_i0(double x) {
  const double magnitude = std::fabs(x);
  return magnitude > 714.0 ? magnitude + kInf : bessel_series(magnitude, 0.0);
}
double bessel_i1(double x) {
  return std::fabs(x) > 714.0 ? std::copysign(kInf, x) : bessel_series(x, 1.0);
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  const double angle = kPi * x;
  return std::sin(angle) / angle;
}
double sinc_slope(double x) {
  const double angle = kPi * x;
  if (std::fabs(angle) < 1e-3) return -kPi * angle / 3.0 * (1.0 - angle * angle / 10.0);
  return (std::cos(angle) - std::sin(angle) / angle) / x;
}

}  // namespace tessera::kernels
