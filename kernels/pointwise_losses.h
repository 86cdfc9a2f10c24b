// kernels/pointwise_losses.h: losses of one prediction and one target, and their slopes by both.
#pragma once

#include "kernels/pointwise.h"
#include "kernels/pointwise_activation.h"
#include "kernels/pointwise_list.h"

namespace tessera::kernels::scalar::inline TSR_MACHINE {

template <class C>
TSR_HOST_DEVICE inline C sign(C x) {
  return x > 0 ? C(1) : (x < 0 ? C(-1) : C(0));
}
/// A logarithm is held at −100, so that a wrong certainty costs a finite amount. Source: torch.
template <class C>
TSR_HOST_DEVICE inline C held_log(C log) {
  return log < -100 ? C(-100) : log;
}

TSR_POINTWISE(SquaredError, (C x, C t), (x - t) * (x - t));
TSR_POINTWISE(AbsoluteError, (C x, C t), std::fabs(x - t));
struct SmoothL1 {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t, Params p) {
    const C gap = std::fabs(x - t), beta = static_cast<C>(p[0]);
    return gap < p[0] ? C(0.5) * gap * gap / beta : gap - C(0.5) * beta;
  }
};
struct Huber {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t, Params p) {
    const C gap = std::fabs(x - t), delta = static_cast<C>(p[0]);
    return gap <= p[0] ? C(0.5) * gap * gap : delta * (gap - C(0.5) * delta);
  }
};
/// Each term is negated by itself, so that the loss of a right answer is +0 under any contraction.
TSR_POINTWISE(BinaryCrossEntropy, (C x, C t),
              t * -held_log(std::log(x)) + (1 - t) * -held_log(std::log1p(-x)));
/// Written so that an infinite x meets no other infinity.
struct BinaryCrossEntropyOfLogits {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t) {
    const C above = x > 0 ? x : C(0), below = x < 0 ? x : C(0);
    return above * (1 - t) - below * t + std::log1p(std::exp(-std::fabs(x)));
  }
};
/// p[0]: the target is a logarithm too.
struct KlDivergence {
  template <class C>
  TSR_HOST_DEVICE static C apply(double x, double t, Params p) {
    if (p[0] != 0.0) return static_cast<C>(std::exp(t) * (t - x));
    return static_cast<C>((t == 0.0 ? 0.0 : t * std::log(t)) - t * x);
  }
};

/// NaN where either is.
struct SmoothL1Slope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t, Params p) {
    const C gap = x - t;
    return std::fabs(gap) >= p[0] ? sign(gap) : gap / static_cast<C>(p[0]);
  }
};
struct HuberSlope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t, Params p) {
    const C gap = x - t;
    return std::fabs(gap) > p[0] ? static_cast<C>(p[0]) * sign(gap) : gap;
  }
};
struct BinaryCrossEntropySlope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C t) {
    const C room = x * (1 - x);
    return (x - t) / (room < C(1e-12) ? C(1e-12) : room);
  }
};
TSR_POINTWISE(SquaredErrorSlope, (C x, C t), 2 * (x - t));
TSR_POINTWISE(SquaredErrorTargetSlope, (C x, C t), 2 * (t - x));
TSR_POINTWISE(AbsoluteErrorSlope, (C x, C t), sign(x - t));
TSR_POINTWISE(AbsoluteErrorTargetSlope, (C x, C t), -sign(x - t));
TSR_POINTWISE(SmoothL1TargetSlope, (C x, C t, Params p), SmoothL1Slope::apply<C>(t, x, p));
TSR_POINTWISE(HuberTargetSlope, (C x, C t, Params p), HuberSlope::apply<C>(t, x, p));
TSR_POINTWISE(BinaryCrossEntropyTargetSlope, (C x, C),
              held_log(std::log1p(-x)) - held_log(std::log(x)));
TSR_POINTWISE(LogitsSlope, (C x, C t), sigmoid(x) - t);
TSR_POINTWISE(LogitsTargetSlope, (C x, C), -x);
TSR_POINTWISE(KlSlope, (C, C t, Params p), p[0] != 0.0 ? -std::exp(t) : -t);
TSR_POINTWISE(KlTargetSlope, (double x, double t, Params p),
              p[0] != 0.0 ? std::exp(t) * (t - x + 1.0) : std::log(t) + 1.0 - x);

struct LossFunctions {
  static constexpr auto kFamily = PointwiseFamily::kLosses;
  static constexpr PointwiseList kEntries = {
      Floating<2, SquaredError>{"mse_loss"},
      Floating<2, AbsoluteError>{"l1_loss"},
      Floating<2, SmoothL1>{"smooth_l1_loss"},
      Floating<2, Huber>{"huber_loss"},
      Floating<2, BinaryCrossEntropy>{"binary_cross_entropy"},
      Floating<2, BinaryCrossEntropyOfLogits>{"binary_cross_entropy_with_logits"},
      Floating<2, KlDivergence>{"kl_div"},

      Slope<2, SquaredErrorSlope>{"mse_loss'0"},
      Slope<2, SquaredErrorTargetSlope>{"mse_loss'1"},
      Slope<2, AbsoluteErrorSlope>{"l1_loss'0"},
      Slope<2, AbsoluteErrorTargetSlope>{"l1_loss'1"},
      Slope<2, SmoothL1Slope>{"smooth_l1_loss'0"},
      Slope<2, SmoothL1TargetSlope>{"smooth_l1_loss'1"},
      Slope<2, HuberSlope>{"huber_loss'0"},
      Slope<2, HuberTargetSlope>{"huber_loss'1"},
      Slope<2, BinaryCrossEntropySlope>{"binary_cross_entropy'0"},
      Slope<2, BinaryCrossEntropyTargetSlope>{"binary_cross_entropy'1"},
      Slope<2, LogitsSlope>{"binary_cross_entropy_with_logits'0"},
      Slope<2, LogitsTargetSlope>{"binary_cross_entropy_with_logits'1"},
      Slope<2, KlSlope>{"kl_div'0"},
      Slope<2, KlTargetSlope>{"kl_div'1"}};
};

}  // namespace tessera::kernels::scalar::inline TSR_MACHINE
