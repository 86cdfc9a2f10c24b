// kernels/pointwise_activation.h: activations and their slopes. NaN stays NaN in all of them.
// Parameters are compared in F64, as they were given.
#pragma once

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"

namespace tessera::kernels::scalar::inline TSR_MACHINE {

template <class C>
TSR_HOST_DEVICE inline C sigmoid(C x) {
  return 1 / (1 + std::exp(-x));
}
template <class C>
TSR_HOST_DEVICE inline C softplus(C x) {
  return std::fmax(x, C(0)) + std::log1p(std::exp(-std::fabs(x)));
}
/// `x` between two numbers; NaN stays.
template <class C>
TSR_HOST_DEVICE inline C between(C x, C low, C high) {
  return x < low ? low : (x > high ? high : x);
}
/// Between two numbers, at neither. A NaN is outside of nothing: it passes the cotangent on.
TSR_HOST_DEVICE inline bool is_inside(double x, double low, double high) {
  return !((x <= low) | (x >= high));
}
inline constexpr double kHalfRoot = 0.70710678118654752440;    // 1/√2
inline constexpr double kNormalPeak = 0.39894228040143267794;  // 1/√(2π)
template <class C>
TSR_HOST_DEVICE inline C normal_below(C x) {
  return C(0.5) * std::erfc(-x * C(kHalfRoot));
}
inline constexpr double kSeluAlpha = 1.6732632423543772848;  // Source: Klambauer et al. 2017
inline constexpr double kSeluScale = 1.0507009873554804934;

struct LogSigmoid {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    const C tail = std::log1p(std::exp(-std::fabs(x)));
    return (x < 0 ? x : C(0)) - tail;
  }
};
TSR_POINTWISE(HardSigmoid, (C x), between<C>((x + 3) / 6, 0, 1));
TSR_POINTWISE(HardSwish, (C x), x <= -3 ? C(-0.0) : x >= 3 ? x : x * HardSigmoid::apply<C>(x));
struct HardTanh {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    const auto value = static_cast<double>(x);
    if (value < p[0]) return convert<C>(p[0]);
    return value > p[1] ? convert<C>(p[1]) : x;
  }
};
TSR_POINTWISE(Relu6, (C x), between<C>(x, 0, 6));
struct Softplus {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    const double scaled = x * p[0];
    return scaled > p[1] ? x : softplus(static_cast<C>(scaled)) / static_cast<C>(p[0]);
  }
};
TSR_POINTWISE(Mish, (C x), x == C(-kInf) ? C(-0.0) : x * std::tanh(softplus(x)));
struct Elu {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    const C alpha = static_cast<C>(p[0]), scale = static_cast<C>(p[1]);
    return scale * (x < 0 ? alpha * std::expm1(x * static_cast<C>(p[2])) : x);
  }
};
TSR_POINTWISE(Selu, (C x), C(kSeluScale) * (x < 0 ? C(kSeluAlpha) * std::expm1(x) : x));
struct Celu {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    const C alpha = static_cast<C>(p[0]);
    return x < 0 ? alpha * std::expm1(x / alpha) : x;
  }
};
TSR_POINTWISE(Gelu, (C x), normal_below(x) * x);
TSR_POINTWISE(LeakyRelu, (C x, Params p), x > 0 ? x : x * C(p[0]));
TSR_POINTWISE(Softsign, (C x), std::isinf(x) ? std::copysign(C(1), x) : x / (1 + std::fabs(x)));
TSR_POINTWISE(TanhShrink, (double x), x - std::tanh(x));
TSR_POINTWISE(Softshrink, (double x, Params p), x - (x > p[0] ? p[0] : x < -p[0] ? -p[0] : x));
TSR_POINTWISE(Hardshrink, (C x, Params p), x >= -p[0] && x <= p[0] ? C(0) : x);
TSR_POINTWISE(Threshold, (C x, Params p), static_cast<double>(x) <= p[0] ? convert<C>(p[1]) : x);
TSR_POINTWISE(Prelu, (C x, C w), x > 0 ? x : x * w);

struct ActivationFunctions {
  static constexpr auto kFamily = PointwiseFamily::kActivation;
  static constexpr PointwiseList kEntries = {Floating<1, LogSigmoid>{"log_sigmoid"},
                                             Floating<1, HardSigmoid>{"hardsigmoid"},
                                             Floating<1, HardSwish>{"hardswish"},
                                             Both<1, HardTanh>{"hardtanh"},
                                             Both<1, Relu6>{"relu6"},
                                             Floating<1, Softplus>{"softplus"},
                                             Floating<1, Mish>{"mish"},
                                             Floating<1, Elu>{"elu"},
                                             Floating<1, Selu>{"selu"},
                                             Floating<1, Celu>{"celu"},
                                             Floating<1, Gelu>{"gelu"},
                                             Floating<1, LeakyRelu>{"leaky_relu"},
                                             Floating<1, Softsign>{"softsign"},
                                             Floating<1, TanhShrink>{"tanhshrink"},
                                             Floating<1, Softshrink>{"softshrink"},
                                             Floating<1, Hardshrink>{"hardshrink"},
                                             Both<1, Threshold>{"threshold"},
                                             Floating<2, Prelu>{"prelu"}};
};

TSR_POINTWISE(LogSigmoidSlope, (C x), sigmoid(-x));
TSR_POINTWISE(HardSigmoidCotangent, (C g, C x), when((x > -3) & (x < 3), g* C(1.0 / 6.0)));
TSR_POINTWISE(HardSwishCotangent, (C g, C x), when(!(x <= -3), g) * (x < 3 ? x / 3 + C(0.5) : 1));
TSR_POINTWISE(HardTanhCotangent, (C g, C x, Params p), when(is_inside(x, p[0], p[1]), g));
TSR_POINTWISE(Relu6Cotangent, (C g, C x), when(is_inside(x, 0.0, 6.0), g));
TSR_POINTWISE(SoftplusSlope, (C x, Params p), p[0] * x > p[1] ? C(1) : sigmoid(C(p[0] * x)));
struct MishSlope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    const C t = std::tanh(softplus(x));
    return t + x * (1 - t * t) * sigmoid(x);
  }
};
TSR_POINTWISE(GeluSlope, (C x), normal_below(x) + x * C(kNormalPeak) * std::exp(C(-0.5) * x * x));
struct EluSlope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    const C alpha = static_cast<C>(p[0]), scale = static_cast<C>(p[1]), rate = static_cast<C>(p[2]);
    return scale * (x <= 0 ? alpha * rate * std::exp(x * rate) : 1);
  }
};
TSR_POINTWISE(SeluSlope, (C x), C(kSeluScale) * (x <= 0 ? C(kSeluAlpha) * std::exp(x) : 1));
TSR_POINTWISE(CeluSlope, (C x, Params p), x <= 0 ? std::exp(x / C(p[0])) : 1);
TSR_POINTWISE(LeakyReluSlope, (C x, Params p), x > 0 ? C(1) : C(p[0]));
struct SoftsignSlope {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    const C d = 1 + std::fabs(x);
    return 1 / (d * d);
  }
};
TSR_POINTWISE(TanhShrinkSlope, (C x), std::tanh(x) * std::tanh(x));
TSR_POINTWISE(ShrinkCotangent, (C g, C x, Params p), when(!((x >= -p[0]) & (x <= p[0])), g));
TSR_POINTWISE(ThresholdCotangent, (C g, C x, Params p), when(!(x <= p[0]), g));
TSR_POINTWISE(PreluSlope, (C x, C w), x > 0 ? C(1) : w);
TSR_POINTWISE(PreluWeightCotangent, (C g, C x, C), when(!(x >= 0), (g * x)));

struct ActivationSlopes {
  static constexpr auto kFamily = PointwiseFamily::kActivationSlopes;
  static constexpr PointwiseList kEntries = {Slope<1, LogSigmoidSlope>{"log_sigmoid'0"},
                                             Cotangent<1, HardSigmoidCotangent>{"hardsigmoid'0"},
                                             Cotangent<1, HardSwishCotangent>{"hardswish'0"},
                                             Cotangent<1, HardTanhCotangent>{"hardtanh'0"},
                                             Cotangent<1, Relu6Cotangent>{"relu6'0"},
                                             Slope<1, SoftplusSlope>{"softplus'0"},
                                             Slope<1, MishSlope>{"mish'0"},
                                             Slope<1, GeluSlope>{"gelu'0"},
                                             Slope<1, EluSlope>{"elu'0"},
                                             Slope<1, SeluSlope>{"selu'0"},
                                             Slope<1, CeluSlope>{"celu'0"},
                                             Slope<1, LeakyReluSlope>{"leaky_relu'0"},
                                             Slope<1, SoftsignSlope>{"softsign'0"},
                                             Slope<1, TanhShrinkSlope>{"tanhshrink'0"},
                                             Cotangent<1, ShrinkCotangent>{"softshrink'0"},
                                             Cotangent<1, ShrinkCotangent>{"hardshrink'0"},
                                             Cotangent<1, ThresholdCotangent>{"threshold'0"},
                                             Slope<2, PreluSlope>{"prelu'0"},
                                             Cotangent<2, PreluWeightCotangent>{"prelu'1"}};
};

}  // namespace tessera::kernels::scalar::inline TSR_MACHINE
