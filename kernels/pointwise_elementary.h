// kernels/pointwise_elementary.h: functions of one number and their slopes.
#pragma once

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"
#include "kernels/special_functions.h"

namespace tessera::kernels::scalar::inline TSR_MACHINE {

inline constexpr double kRootPi = 1.7724538509055160273;
inline constexpr double kLn10 = 2.30258509299404568402;

TSR_POINTWISE(Tan, (C x), std::tan(x));
TSR_POINTWISE(Asin, (C x), std::asin(x));
TSR_POINTWISE(Acos, (C x), std::acos(x));
TSR_POINTWISE(Atan, (C x), std::atan(x));
TSR_POINTWISE(Sinh, (C x), std::sinh(x));
TSR_POINTWISE(Cosh, (C x), std::cosh(x));
TSR_POINTWISE(Asinh, (C x), std::asinh(x));
TSR_POINTWISE(Acosh, (C x), std::acosh(x));
TSR_POINTWISE(Atanh, (C x), std::atanh(x));
TSR_POINTWISE(Exp, (C x), std::exp(x));
TSR_POINTWISE(Exp2, (C x), std::exp2(x));
TSR_POINTWISE(Expm1, (C x), std::expm1(x));
TSR_POINTWISE(Log2, (C x), std::log2(x));
TSR_POINTWISE(Log10, (C x), std::log10(x));
TSR_POINTWISE(Log1p, (C x), std::log1p(x));
TSR_POINTWISE(Erf, (C x), std::erf(x));
TSR_POINTWISE(Erfc, (C x), std::erfc(x));
TSR_POINTWISE(Erfinv, (double x), erfinv(x));
TSR_POINTWISE(Digamma, (double x), digamma(x));
TSR_POINTWISE(Trigamma, (double x), trigamma(x));
TSR_POINTWISE(Sinc, (double x), sinc(x));
TSR_POINTWISE(BesselI0, (double x), bessel_i0(x));
TSR_POINTWISE(BesselI1, (double x), bessel_i1(x));
TSR_POINTWISE(DegreesToRadians, (C x), x* C(kPi / 180.0));
TSR_POINTWISE(RadiansToDegrees, (C x), x* C(180.0 / kPi));
TSR_POINTWISE(Trunc, (C x), std::trunc(x));
TSR_POINTWISE(RoundEven, (C x), std::nearbyint(x));
TSR_POINTWISE(Frac, (C x), x - std::trunc(x));
TSR_POINTWISE(Identity, (C x), x);
TSR_POINTWISE(SignBit, (C x), std::signbit(x) ? 1 : 0);
TSR_POINTWISE(IsNegative, (C x), x < 0 ? 1 : 0);
TSR_POINTWISE(IsInf, (C x), std::isinf(x) ? 1 : 0);
TSR_POINTWISE(IsFinite, (C x), std::isfinite(x) ? 1 : 0);
TSR_POINTWISE(IsPosInf, (C x), x == C(kInf) ? 1 : 0);
TSR_POINTWISE(IsNegInf, (C x), x == C(-kInf) ? 1 : 0);
TSR_POINTWISE(Never, (C), 0);
TSR_POINTWISE(Always, (C), 1);
TSR_POINTWISE(BitwiseNot, (C x), ~x);

struct LogGamma {
  template <class C>
  TSR_HOST_DEVICE static C apply(double x) {
#if defined(__CUDA_ARCH__)
    return static_cast<C>(lgamma(x));
#else
    int sign = 0;  // of its own: the C library's is one for all threads
    return static_cast<C>(lgamma_r(x, &sign));
#endif
  }
};
struct Logit {
  template <class C>
  TSR_HOST_DEVICE static C apply(double x, Params p) {
    const double eps = p[0];
    const double z = eps < 0.0 ? x : (x < eps ? eps : (x > 1.0 - eps ? 1.0 - eps : x));
    return static_cast<C>(std::log(z / (1.0 - z)));
  }
};
struct LogitCotangent {
  template <class C>
  TSR_HOST_DEVICE static C apply(double g, double x, Params p) {
    const double eps = p[0];
    if (eps < 0.0) return static_cast<C>(x < 0.0 || x > 1.0 ? kNan : g / (x * (1.0 - x)));
    return static_cast<C>(x < eps || x > 1.0 - eps ? 0.0 : g / (x * (1.0 - x)));
  }
};
struct NanToNum {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, Params p) {
    if (std::isnan(x)) return static_cast<C>(p[0]);
    return std::isinf(x) ? static_cast<C>(x > 0 ? p[1] : p[2]) : x;
  }
};

struct ElementaryFunctions {
  static constexpr auto kFamily = PointwiseFamily::kElementary;
  static constexpr PointwiseList kEntries = {Floating<1, Tan>{"tan"},
                                             Floating<1, Asin>{"asin"},
                                             Floating<1, Acos>{"acos"},
                                             Floating<1, Atan>{"atan"},
                                             Floating<1, Sinh>{"sinh"},
                                             Floating<1, Cosh>{"cosh"},
                                             Floating<1, Asinh>{"asinh"},
                                             Floating<1, Acosh>{"acosh"},
                                             Floating<1, Atanh>{"atanh"},
                                             Floating<1, Exp2>{"exp2"},
                                             Floating<1, Expm1>{"expm1"},
                                             Floating<1, Log2>{"log2"},
                                             Floating<1, Log10>{"log10"},
                                             Floating<1, Log1p>{"log1p"},
                                             Floating<1, Erf>{"erf"},
                                             Floating<1, Erfc>{"erfc"},
                                             Floating<1, Erfinv>{"erfinv"},
                                             Floating<1, LogGamma>{"lgamma"},
                                             Floating<1, Digamma>{"digamma"},
                                             Floating<1, Sinc>{"sinc"},
                                             Floating<1, BesselI0>{"i0"},
                                             Floating<1, Logit>{"logit"},
                                             Floating<1, DegreesToRadians>{"deg2rad"},
                                             Floating<1, RadiansToDegrees>{"rad2deg"},
                                             Both<1, Trunc, Identity>{"trunc"},
                                             Both<1, RoundEven, Identity>{"round"},
                                             Floating<1, Frac>{"frac"},
                                             Both<1, Identity>{"positive"},
                                             Both<1, NanToNum, Identity>{"nan_to_num"},
                                             Both<1, SignBit, IsNegative>{"signbit"},
                                             Both<1, IsInf, Never>{"isinf"},
                                             Both<1, IsFinite, Always>{"isfinite"},
                                             Both<1, IsPosInf, Never>{"isposinf"},
                                             Both<1, IsNegInf, Never>{"isneginf"},
                                             Integral<1, BitwiseNot>{"bitwise_not"}};
};

TSR_POINTWISE(TanSlope, (C x), 1 + std::tan(x) * std::tan(x));
TSR_POINTWISE(AsinSlope, (double x), 1.0 / std::sqrt(1.0 - x * x));
TSR_POINTWISE(AcosSlope, (double x), -1.0 / std::sqrt(1.0 - x * x));
TSR_POINTWISE(AtanSlope, (C x), 1 / (1 + x * x));
TSR_POINTWISE(AsinhSlope, (C x), 1 / std::sqrt(1 + x * x));
TSR_POINTWISE(AcoshSlope, (double x), 1.0 / std::sqrt(x * x - 1.0));
TSR_POINTWISE(AtanhSlope, (double x), 1.0 / (1.0 - x * x));
TSR_POINTWISE(Exp2Slope, (C x), C(kLn2) * std::exp2(x));
TSR_POINTWISE(Log2Cotangent, (double g, double x), g / (x * kLn2));
TSR_POINTWISE(Log10Cotangent, (double g, double x), g / (x * kLn10));
TSR_POINTWISE(Log1pSlope, (C x), 1 / (1 + x));
TSR_POINTWISE(ErfSlope, (C x), C(2.0 / kRootPi) * std::exp(-x * x));
TSR_POINTWISE(ErfcSlope, (C x), C(-2.0 / kRootPi) * std::exp(-x * x));
TSR_POINTWISE(ErfinvSlope, (double y), kRootPi / 2.0 * std::exp(erfinv(y) * erfinv(y)));
TSR_POINTWISE(SincCotangent, (double g, double x), when(x != 0.0, sinc_slope(x) * g));
TSR_POINTWISE(DegreesToRadiansSlope, (C), kPi / 180.0);
TSR_POINTWISE(RadiansToDegreesSlope, (C), 180.0 / kPi);
TSR_POINTWISE(One, (C), 1);
TSR_POINTWISE(WhereFinite, (C g, C x), when(std::isfinite(x), g));

struct ElementarySlopes {
  static constexpr auto kFamily = PointwiseFamily::kElementarySlopes;
  static constexpr PointwiseList kEntries = {Slope<1, TanSlope>{"tan'0"},
                                             Slope<1, AsinSlope>{"asin'0"},
                                             Slope<1, AcosSlope>{"acos'0"},
                                             Slope<1, AtanSlope>{"atan'0"},
                                             Slope<1, Cosh>{"sinh'0"},
                                             Slope<1, Sinh>{"cosh'0"},
                                             Slope<1, AsinhSlope>{"asinh'0"},
                                             Slope<1, AcoshSlope>{"acosh'0"},
                                             Slope<1, AtanhSlope>{"atanh'0"},
                                             Slope<1, Exp2Slope>{"exp2'0"},
                                             Slope<1, Exp>{"expm1'0"},
                                             Cotangent<1, Log2Cotangent>{"log2'0"},
                                             Cotangent<1, Log10Cotangent>{"log10'0"},
                                             Slope<1, Log1pSlope>{"log1p'0"},
                                             Slope<1, ErfSlope>{"erf'0"},
                                             Slope<1, ErfcSlope>{"erfc'0"},
                                             Slope<1, ErfinvSlope>{"erfinv'0"},
                                             Slope<1, Digamma>{"lgamma'0"},
                                             Slope<1, Trigamma>{"digamma'0"},
                                             Cotangent<1, SincCotangent>{"sinc'0"},
                                             Slope<1, BesselI1>{"i0'0"},
                                             Cotangent<1, LogitCotangent>{"logit'0"},
                                             Slope<1, DegreesToRadiansSlope>{"deg2rad'0"},
                                             Slope<1, RadiansToDegreesSlope>{"rad2deg'0"},
                                             Slope<1, One>{"frac'0"},
                                             Slope<1, One>{"positive'0"},
                                             Cotangent<1, WhereFinite>{"nan_to_num'0"}};
};

}  // namespace tessera::kernels::scalar::inline TSR_MACHINE
