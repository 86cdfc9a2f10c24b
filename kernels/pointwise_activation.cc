// Activations and their slopes. NaN stays NaN in all of them.
#include "kernels/pointwise_table.h"

namespace tessera::kernels {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double softplus_of(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

/// `x` between two numbers; NaN stays.
double between(double x, double low, double high) { return x < low ? low : (x > high ? high : x); }

double log_sigmoid(double x) {
  const double tail = std::log1p(std::exp(-std::fabs(x)));
  return (x < 0.0 ? x : 0.0) - tail;
}
double hardsigmoid(double x) { return between((x + 3.0) / 6.0, 0.0, 1.0); }
double hardswish(double x) { return x <= -3.0 ? -0.0 : x >= 3.0 ? x : x * hardsigmoid(x); }
double hardswish_cotangent(double g, double x) {
  return when(!(x <= -3.0), g) * (x < 3.0 ? x / 3.0 + 0.5 : 1.0);
}
double hardsigmoid_cotangent(double g, double x) {
  return when((x > -3.0) & (x < 3.0), g * (1.0 / 6.0));
}
double prelu_weight_cotangent(double g, double x, double) { return when(!(x >= 0.0), g * x); }
/// Between two numbers, at neither. A NaN is outside of nothing: it passes the cotangent on.
bool is_inside(double x, double low, double high) { return !((x <= low) | (x >= high)); }
double softplus(double x, Params p) {
  const double scaled = x * p[0];
  return scaled > p[1] ? x : softplus_of(scaled) / p[0];
}
double mish(double x) { return x == -kInf ? -0.0 : x * std::tanh(softplus_of(x)); }
double mish_slope(double x) {
  const double t = std::tanh(softplus_of(x));
  return t + x * (1.0 - t * t) * sigmoid(x);
}

constexpr double kHalfRoot = 0.70710678118654752440;    // 1/√2
constexpr double kNormalPeak = 0.39894228040143267794;  // 1/√(2π)
double normal_below(double x) { return 0.5 * std::erfc(-x * kHalfRoot); }
double gelu(double x) { return x * normal_below(x); }
double gelu_slope(double x) { return normal_below(x) + x * kNormalPeak * std::exp(-0.5 * x * x); }

constexpr double kSeluAlpha = 1.6732632423543772848;  // Source: Klambauer et al. 2017
constexpr double kSeluScale = 1.0507009873554804934;

double selu(double x) { return kSeluScale * (x < 0.0 ? kSeluAlpha * std::expm1(x) : x); }
double selu_slope(double x) { return kSeluScale * (x <= 0.0 ? kSeluAlpha * std::exp(x) : 1.0); }
double elu(double x, Params p) { return p[1] * (x < 0.0 ? p[0] * std::expm1(x * p[2]) : x); }
double elu_slope(double x, Params p) {
  return p[1] * (x <= 0.0 ? p[0] * p[2] * std::exp(x * p[2]) : 1.0);
}
double celu(double x, Params p) { return x < 0.0 ? p[0] * std::expm1(x / p[0]) : x; }
double celu_slope(double x, Params p) { return x <= 0.0 ? std::exp(x / p[0]) : 1.0; }
double softsign(double x) {
  return std::isinf(x) ? std::copysign(1.0, x) : x / (1.0 + std::fabs(x));
}
double softsign_slope(double x) {
  const double d = 1.0 + std::fabs(x);
  return 1.0 / (d * d);
}
double softshrink(double x, Params p) { return x - (x > p[0] ? p[0] : x < -p[0] ? -p[0] : x); }

double shrink_cotangent(double g, double x, Params p) {
  return when(!((x >= -p[0]) & (x <= p[0])), g);
}

constexpr auto hold = [](auto x, Params p) {
  using C = decltype(x);
  const auto value = static_cast<double>(x);
  if (value < p[0]) return convert<C>(p[0]);
  return value > p[1] ? convert<C>(p[1]) : x;
};
constexpr auto hold_below_six = [](auto x) {
  using C = decltype(x);
  return x < C{0} ? C{0} : (x > C{6} ? C{6} : x);
};

constexpr Pointwise kFunctions[] = {
    floating<1, log_sigmoid>("log_sigmoid"),
    floating<1, hardsigmoid>("hardsigmoid"),
    floating<1, hardswish>("hardswish"),
    any<1, hold>("hardtanh"),
    any<1, hold_below_six>("relu6"),
    floating<1, softplus>("softplus"),
    floating<1, mish>("mish"),
    floating<1, elu>("elu"),
    floating<1, selu>("selu"),
    floating<1, celu>("celu"),
    floating<1, gelu>("gelu"),
    floating<1, [](double x, Params p) { return (x > 0.0) ? x : x * p[0]; }>("leaky_relu"),
    floating<1, softsign>("softsign"),
    floating<1, [](double x) { return x - std::tanh(x); }>("tanhshrink"),
    floating<1, softshrink>("softshrink"),
    floating<1, [](double x, Params p) { return x >= -p[0] && x <= p[0] ? 0.0 : x; }>("hardshrink"),
    any<1,
        [](auto x, Params p) {
          return static_cast<double>(x) <= p[0] ? convert<decltype(x)>(p[1]) : x;
        }>("threshold"),
    floating<2, [](double x, double w) { return (x > 0.0) ? x : x * w; }>("prelu"),
};

constexpr Pointwise kSlopes[] = {
    slope<1, [](double x) { return sigmoid(-x); }>("log_sigmoid'0"),
    cotangent<1, hardsigmoid_cotangent>("hardsigmoid'0"),
    cotangent<1, hardswish_cotangent>("hardswish'0"),
    cotangent<1, [](double g, double x, Params p) { return when(is_inside(x, p[0], p[1]), g); }>(
        "hardtanh'0"),
    cotangent<1, [](double g, double x) { return when(is_inside(x, 0.0, 6.0), g); }>("relu6'0"),
    slope<1, [](double x, Params p) { return (x * p[0] > p[1]) ? 1.0 : sigmoid(x * p[0]); }>(
        "softplus'0"),
    slope<1, mish_slope>("mish'0"),
    slope<1, gelu_slope>("gelu'0"),
    slope<1, elu_slope>("elu'0"),
    slope<1, selu_slope>("selu'0"),
    slope<1, celu_slope>("celu'0"),
    slope<1, [](double x, Params p) { return (x > 0.0) ? 1.0 : p[0]; }>("leaky_relu'0"),
    slope<1, softsign_slope>("softsign'0"),
    slope<1, [](double x) { return std::tanh(x) * std::tanh(x); }>("tanhshrink'0"),
    cotangent<1, shrink_cotangent>("softshrink'0"),
    cotangent<1, shrink_cotangent>("hardshrink'0"),
    cotangent<1, [](double g, double x, Params p) { return when(!(x <= p[0]), g); }>("threshold'0"),
    slope<2, [](double x, double w) { return (x > 0.0) ? 1.0 : w; }>("prelu'0"),
    cotangent<2, prelu_weight_cotangent>("prelu'1"),
};

}  // namespace

std::span<const Pointwise> activation_functions() { return kFunctions; }
std::span<const Pointwise> activation_slopes() { return kSlopes; }

}  // namespace tessera::kernels
