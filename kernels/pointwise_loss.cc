// Losses of one prediction and one target, and their slopes by both.
#include "kernels/pointwise_table.h"

namespace tessera::kernels {
namespace {

double sign(double x) { return x > 0.0 ? 1.0 : (x < 0.0 ? -1.0 : 0.0); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double smooth_l1(double x, double t, Params p) {
  const double gap = std::fabs(x - t);
  return gap < p[0] ? 0.5 * gap * gap / p[0] : gap - 0.5 * p[0];
}
/// NaN where either is.
double smooth_l1_slope(double x, double t, Params p) {
  const double gap = x - t;
  return std::fabs(gap) >= p[0] ? sign(gap) : gap / p[0];
}
double huber(double x, double t, Params p) {
  const double gap = std::fabs(x - t);
  return gap <= p[0] ? 0.5 * gap * gap : p[0] * (gap - 0.5 * p[0]);
}
double huber_slope(double x, double t, Params p) {
  const double gap = x - t;
  return std::fabs(gap) > p[0] ? p[0] * sign(gap) : gap;
}
/// A logarithm is held at −100, so that a wrong certainty costs a finite amount. Source: torch.
double held_log(double log) { return log < -100.0 ? -100.0 : log; }
/// Each term is negated by itself, so that the loss of a right answer is +0 under any contraction.
double bce(double x, double t) {
  return t * -held_log(std::log(x)) + (1.0 - t) * -held_log(std::log1p(-x));
}
double bce_slope(double x, double t) {
  const double room = x * (1.0 - x);
  return (x - t) / (room < 1e-12 ? 1e-12 : room);
}
double bce_slope_target(double x, double) {
  return held_log(std::log1p(-x)) - held_log(std::log(x));
}
/// Written so that an infinite x meets no other infinity.
double bce_logits(double x, double t) {
  const double above = x > 0.0 ? x : 0.0, below = x < 0.0 ? x : 0.0;
  return above * (1.0 - t) - below * t + std::log1p(std::exp(-std::fabs(x)));
}
/// p[0]: the target is a logarithm too.
double kl_div(double x, double t, Params p) {
  if (p[0] != 0.0) return std::exp(t) * (t - x);
  return (t == 0.0 ? 0.0 : t * std::log(t)) - t * x;
}
double kl_slope(double, double t, Params p) { return p[0] != 0.0 ? -std::exp(t) : -t; }
double kl_slope_target(double x, double t, Params p) {
  return p[0] != 0.0 ? std::exp(t) * (t - x + 1.0) : std::log(t) + 1.0 - x;
}

constexpr Pointwise kFunctions[] = {
    floating<2, [](double x, double t) { return (x - t) * (x - t); }>("mse_loss"),
    floating<2, [](double x, double t) { return std::fabs(x - t); }>("l1_loss"),
    floating<2, smooth_l1>("smooth_l1_loss"),
    floating<2, huber>("huber_loss"),
    floating<2, bce>("binary_cross_entropy"),
    floating<2, bce_logits>("binary_cross_entropy_with_logits"),
    floating<2, kl_div>("kl_div"),

    slope<2, [](double x, double t) { return 2.0 * (x - t); }>("mse_loss'0"),
    slope<2, [](double x, double t) { return 2.0 * (t - x); }>("mse_loss'1"),
    slope<2, [](double x, double t) { return sign(x - t); }>("l1_loss'0"),
    slope<2, [](double x, double t) { return -sign(x - t); }>("l1_loss'1"),
    slope<2, smooth_l1_slope>("smooth_l1_loss'0"),
    slope<2, [](double x, double t, Params p) { return smooth_l1_slope(t, x, p); }>(
        "smooth_l1_loss'1"),
    slope<2, huber_slope>("huber_loss'0"),
    slope<2, [](double x, double t, Params p) { return huber_slope(t, x, p); }>("huber_loss'1"),
    slope<2, bce_slope>("binary_cross_entropy'0"),
    slope<2, bce_slope_target>("binary_cross_entropy'1"),
    slope<2, [](double x, double t) { return sigmoid(x) - t; }>(
        "binary_cross_entropy_with_logits'0"),
    slope<2, [](double x, double) { return -x; }>("binary_cross_entropy_with_logits'1"),
    slope<2, kl_slope>("kl_div'0"),
    slope<2, kl_slope_target>("kl_div'1"),
};

}  // namespace

std::span<const Pointwise> loss_functions() { return kFunctions; }

}  // namespace tessera::kernels
