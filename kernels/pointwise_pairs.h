// kernels/pointwise_pairs.h: functions of two and three numbers, and their slopes; in floating
// types, some in integers too. Sums and products cost no more in F64 than their memory does.
#pragma once

#include "kernels/pointwise.h"
#include "kernels/pointwise_list.h"

namespace tessera::kernels::scalar::inline TSR_MACHINE {

using I = std::int64_t;
using U = std::uint64_t;

TSR_HOST_DEVICE inline I wrapped_product(I a, I b) {
  return static_cast<I>(static_cast<U>(a) * static_cast<U>(b));
}
TSR_HOST_DEVICE inline I wrapped_sum(I a, I b) {
  return static_cast<I>(static_cast<U>(a) + static_cast<U>(b));
}
TSR_HOST_DEVICE inline I wrapped_negative(I a) { return static_cast<I>(U{0} - static_cast<U>(a)); }
TSR_HOST_DEVICE inline I scaled(I x, Params p) { return wrapped_product(x, convert<I>(p[0])); }

/// Rounding towards −∞, with a remainder of the divisor's sign. Source: Python.
TSR_HOST_DEVICE inline double remainder_of(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0.0 && (rest < 0.0) != (b < 0.0) ? rest + b : rest;
}
/// A divisor that goes into a number no time has no influence on the remainder.
TSR_HOST_DEVICE inline double divisor_cotangent(double g, double times) {
  return when(times != 0.0, -g * times);
}
/// At (0, 0), where no angle is, neither operand has a slope.
TSR_HOST_DEVICE inline double atan2_slope(double a, double b) {
  const double square = a * a + b * b;
  return a == 0.0 && b == 0.0 ? 0.0 : b / square;
}
TSR_HOST_DEVICE inline double power_cotangent_base(double g, double a, double b) {
  return when(b != 0.0, g * (b * std::pow(a, b - 1.0)));
}
TSR_HOST_DEVICE inline double power_slope_exponent(double a, double b) {
  return a == 0.0 && b >= 0.0 ? 0.0 : std::pow(a, b) * std::log(a);
}
TSR_HOST_DEVICE inline bool is_close(double a, double b, Params p) {
  if (a == b || (p[2] != 0.0 && std::isnan(a) && std::isnan(b))) return true;
  const double gap = std::fabs(a - b);
  return std::isfinite(gap) && gap <= p[1] + std::fabs(p[0] * b);
}
/// From the nearer end, so that both ends are met exactly. Source: torch.
TSR_HOST_DEVICE inline double lerp(double a, double b, double w) {
  return std::fabs(w) < 0.5 ? a + w * (b - a) : b + (b - a) * (w - 1.0);
}

TSR_POINTWISE(Atan2, (C a, C b), std::atan2(a, b));
TSR_POINTWISE(Fmod, (C a, C b), std::fmod(a, b));
/// An integer has no remainder by 0.
struct FmodOfIntegers {
  static constexpr bool kDivides = true;
  template <class Operands>
  TSR_HOST_DEVICE static I divisor(const Operands& x, Params) {
    return x[1];
  }
  template <class C>
  TSR_HOST_DEVICE static I apply(I a, I b) {
    return b == -1 ? 0 : a % b;
  }
};
TSR_POINTWISE(FmodScalar, (double x, Params p), std::fmod(x, p[0]));
struct FmodScalarOfIntegers {
  static constexpr bool kDivides = true;
  template <class Operands>
  TSR_HOST_DEVICE static I divisor(const Operands&, Params p) {
    return convert<I>(p[0]);
  }
  template <class C>
  TSR_HOST_DEVICE static I apply(I x, Params p) {
    return FmodOfIntegers::apply<I>(x, convert<I>(p[0]));
  }
};
TSR_POINTWISE(Hypot, (C a, C b), std::hypot(a, b));
TSR_POINTWISE(CopySign, (C a, C b), std::copysign(a, b));
TSR_POINTWISE(Ldexp, (double a, double b), std::exp2(b) * a);
struct LogAddExp {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if (std::isinf(a) && a == b) return a;
    const C most = a > b ? a : b;
    return most + std::log1p(std::exp(-std::fabs(a - b)));
  }
};
struct LogAddExp2 {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if (std::isinf(a) && a == b) return a;
    const C most = a > b ? a : b;
    return most + std::log1p(std::exp2(-std::fabs(a - b))) / C(kLn2);
  }
};
struct Xlogy {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if (std::isnan(b)) return b;
    return a == 0 ? C(0) : a * std::log(b);
  }
};
TSR_POINTWISE(Power, (C a, C b), std::pow(a, b));
TSR_POINTWISE(ScalarPower, (double x, Params p), std::pow(p[0], x));
struct IntegerPower {
  template <class C>
  TSR_HOST_DEVICE static I apply(I base, I exponent) {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    U result = 1;
    for (U factor = static_cast<U>(base); exponent > 0; exponent /= 2, factor *= factor) {
      if (exponent % 2 != 0) result *= factor;
    }
    return static_cast<I>(result);
  }
};
TSR_POINTWISE(FloatMax, (C a, C b), std::fmax(a, b));
TSR_POINTWISE(FloatMin, (C a, C b), std::fmin(a, b));
TSR_POINTWISE(Larger, (C a, C b), a > b ? a : b);
TSR_POINTWISE(Smaller, (C a, C b), a < b ? a : b);
TSR_POINTWISE(Heaviside, (C x, C at_zero), x == 0 ? at_zero : C(x > 0 ? 1 : 0));
TSR_POINTWISE(IsClose, (double a, double b, Params p), is_close(a, b, p) ? 1 : 0);
TSR_POINTWISE(IsCloseOfIntegers, (C a, C b, Params p),
              is_close(static_cast<double>(a), static_cast<double>(b), p) ? 1 : 0);
TSR_POINTWISE(LogicalXor, (C a, C b), (a != 0) != (b != 0) ? 1 : 0);
TSR_POINTWISE(AddScaled, (double a, double b, Params p), a + p[0] * b);
TSR_POINTWISE(SubScaled, (double a, double b, Params p), a - p[0] * b);
TSR_POINTWISE(RsubScaled, (double a, double b, Params p), b - p[0] * a);
TSR_POINTWISE(AddScaledIntegers, (I a, I b, Params p), wrapped_sum(a, scaled(b, p)));
TSR_POINTWISE(SubScaledIntegers, (I a, I b, Params p),
              wrapped_sum(a, wrapped_negative(scaled(b, p))));
TSR_POINTWISE(RsubScaledIntegers, (I a, I b, Params p),
              wrapped_sum(b, wrapped_negative(scaled(a, p))));
TSR_POINTWISE(RsubScalar, (double x, Params p), p[0] - p[1] * x);
TSR_POINTWISE(RsubScalarIntegers, (I x, Params p),
              wrapped_sum(convert<I>(p[0]),
                          wrapped_negative(wrapped_product(x, convert<I>(p[1])))));
TSR_POINTWISE(Lerp, (double a, double b, double w), lerp(a, b, w));
TSR_POINTWISE(LerpScalar, (double a, double b, Params p), lerp(a, b, p[0]));
TSR_POINTWISE(AddProduct, (double a, double b, double c, Params p), a + p[0] * b * c);
TSR_POINTWISE(AddProductOfIntegers, (I a, I b, I c, Params p),
              wrapped_sum(a, wrapped_product(scaled(b, p), c)));
TSR_POINTWISE(AddQuotient, (double a, double b, double c, Params p), a + p[0] * (b / c));
struct ClampBetween {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x, C low, C high) {
    if constexpr (std::is_floating_point_v<C>) {
      if (std::isnan(low) || std::isnan(high)) return C(kNan);
    }
    const C raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};

struct PairFunctions {
  static constexpr auto kFamily = PointwiseFamily::kPairs;
  static constexpr PointwiseList kEntries = {
      Floating<2, Atan2>{"atan2"},
      Both<2, Fmod, FmodOfIntegers>{"fmod"},
      Floating<2, Hypot>{"hypot"},
      Floating<2, CopySign>{"copysign"},
      Floating<2, Ldexp>{"ldexp"},
      Floating<2, LogAddExp>{"logaddexp"},
      Floating<2, LogAddExp2>{"logaddexp2"},
      Floating<2, Xlogy>{"xlogy"},
      Both<2, Power, IntegerPower>{"pow_tensor"},
      Floating<2, Power>{"float_power"},
      Both<2, FloatMax, Larger>{"fmax"},
      Both<2, FloatMin, Smaller>{"fmin"},
      Both<2, Heaviside>{"heaviside"},
      Both<2, IsClose, IsCloseOfIntegers>{"isclose"},
      Both<2, LogicalXor>{"logical_xor"},
      Both<2, AddScaled, AddScaledIntegers>{"add"},
      Both<2, SubScaled, SubScaledIntegers>{"sub"},
      Both<2, RsubScaled, RsubScaledIntegers>{"rsub"},
      Both<3, ClampBetween>{"clamp_tensor"},
      Floating<3, Lerp>{"lerp"},
      Floating<2, LerpScalar>{"lerp_scalar"},
      Both<3, AddProduct, AddProductOfIntegers>{"addcmul"},
      Floating<3, AddQuotient>{"addcdiv"},
      Floating<1, ScalarPower>{"scalar_pow"},
      Both<1, RsubScalar, RsubScalarIntegers>{"rsub_scalar"},
      Both<1, FmodScalar, FmodScalarOfIntegers>{"fmod_scalar"}};
};

TSR_POINTWISE(Atan2Slope, (double a, double b), atan2_slope(a, b));
TSR_POINTWISE(Atan2SecondSlope, (double a, double b), -atan2_slope(b, a));
TSR_POINTWISE(OneOfTwo, (C, C), 1);
TSR_POINTWISE(OneWithScalar, (C, Params), 1);
TSR_POINTWISE(NoneOfTwo, (C, C, C), 0);
TSR_POINTWISE(FmodDivisorCotangent, (double g, double a, double b),
              divisor_cotangent(g, std::trunc(a / b)));
TSR_POINTWISE(RemainderDivisorCotangent, (double g, double a, double b),
              divisor_cotangent(g, std::round((a - remainder_of(a, b)) / b)));
TSR_POINTWISE(HypotSlope, (double a, double b), a / std::hypot(a, b));
TSR_POINTWISE(HypotSecondSlope, (double a, double b), b / std::hypot(a, b));
TSR_POINTWISE(CopySignCotangent, (C g, C a, C b),
              when(a != 0, std::copysign(C(1), b) * std::copysign(C(1), a) * g));
TSR_POINTWISE(LdexpSlope, (double, double b), std::exp2(b));
TSR_POINTWISE(LdexpSecondSlope, (double a, double b), std::exp2(b) * (a * kLn2));
TSR_POINTWISE(LogAddExpSlope, (C a, C b), 1 / (1 + std::exp(b - a)));
TSR_POINTWISE(LogAddExpSecondSlope, (C a, C b), 1 / (1 + std::exp(a - b)));
TSR_POINTWISE(LogAddExp2Slope, (C a, C b), 1 / (1 + std::exp2(b - a)));
TSR_POINTWISE(LogAddExp2SecondSlope, (C a, C b), 1 / (1 + std::exp2(a - b)));
/// 0 times a logarithm that does not exist is 0, as in the function itself.
TSR_POINTWISE(XlogyCotangent, (C g, C a, C b), a == 0 && b <= 0 ? C(0) : Xlogy::apply<C>(g, b));
TSR_POINTWISE(Quotient, (C a, C b), a / b);
TSR_POINTWISE(PowerBaseCotangent, (double g, double a, double b), power_cotangent_base(g, a, b));
TSR_POINTWISE(PowerExponentSlope, (double a, double b), power_slope_exponent(a, b));
TSR_POINTWISE(ScalarPowerSlope, (double x, Params p), power_slope_exponent(p[0], x));
/// What reaches the first of two operands of which one is chosen: equal ones share, and both are
/// the cause of a NaN, which wins.
TSR_POINTWISE(MaximumCotangent, (C g, C a, C b), when(!(a < b), (a == b ? C(0.5) : C(1)) * g));
TSR_POINTWISE(MinimumCotangent, (C g, C a, C b), MaximumCotangent::apply<C>(g, b, a));
/// The same where a NaN loses: of two the first is chosen.
TSR_POINTWISE(FmaxCotangent, (C g, C a, C b),
              when((a >= b) | (b != b), (a == b ? C(0.5) : C(1)) * g));
TSR_POINTWISE(FmaxSecondCotangent, (C g, C a, C b),
              when(!((a > b) | (b != b)), (a == b ? C(0.5) : C(1)) * g));
TSR_POINTWISE(FminCotangent, (C g, C a, C b), FmaxCotangent::apply<C>(g, -a, -b));
TSR_POINTWISE(FminSecondCotangent, (C g, C a, C b), FmaxSecondCotangent::apply<C>(g, -a, -b));
/// Of an element and its bounds the one that is the result; the element shares with a bound that
/// it equals, unless the bounds leave it no room.
struct ClampCotangent {
  template <class C>
  TSR_HOST_DEVICE static C apply(C g, C x, C low, C high) {
    if (x < low || x > high) return 0;
    return low < high && (x == low || x == high) ? C(0.5) * g : g;
  }
};
struct ClampLowCotangent {
  template <class C>
  TSR_HOST_DEVICE static C apply(C g, C x, C low, C high) {
    if (x < low && low <= high) return g;
    return x == low && low < high ? C(0.5) * g : C(0);
  }
};
struct ClampHighCotangent {
  template <class C>
  TSR_HOST_DEVICE static C apply(C g, C x, C low, C high) {
    if (std::isnan(low) || std::isnan(high)) return 0;
    if (low > high || x > high) return g;
    return x == high && low < high ? C(0.5) * g : C(0);
  }
};
TSR_POINTWISE(RsubScalarSlope, (C, Params p), -p[1]);

struct PairSlopes {
  static constexpr auto kFamily = PointwiseFamily::kPairSlopes;
  static constexpr PointwiseList kEntries = {Slope<2, Atan2Slope>{"atan2'0"},
                                             Slope<2, Atan2SecondSlope>{"atan2'1"},
                                             Slope<2, OneOfTwo>{"fmod'0"},
                                             Cotangent<2, FmodDivisorCotangent>{"fmod'1"},
                                             Slope<2, OneOfTwo>{"remainder'0"},
                                             Cotangent<2, RemainderDivisorCotangent>{"remainder'1"},
                                             Slope<2, HypotSlope>{"hypot'0"},
                                             Slope<2, HypotSecondSlope>{"hypot'1"},
                                             Cotangent<2, CopySignCotangent>{"copysign'0"},
                                             Cotangent<2, NoneOfTwo>{"copysign'1"},
                                             Slope<2, LdexpSlope>{"ldexp'0"},
                                             Slope<2, LdexpSecondSlope>{"ldexp'1"},
                                             Slope<2, LogAddExpSlope>{"logaddexp'0"},
                                             Slope<2, LogAddExpSecondSlope>{"logaddexp'1"},
                                             Slope<2, LogAddExp2Slope>{"logaddexp2'0"},
                                             Slope<2, LogAddExp2SecondSlope>{"logaddexp2'1"},
                                             Cotangent<2, XlogyCotangent>{"xlogy'0"},
                                             Slope<2, Quotient>{"xlogy'1"},
                                             Cotangent<2, PowerBaseCotangent>{"pow_tensor'0"},
                                             Slope<2, PowerExponentSlope>{"pow_tensor'1"},
                                             Cotangent<2, PowerBaseCotangent>{"float_power'0"},
                                             Slope<2, PowerExponentSlope>{"float_power'1"},
                                             Cotangent<2, MaximumCotangent>{"maximum'0"},
                                             Cotangent<2, MinimumCotangent>{"maximum'1"},
                                             Cotangent<2, MinimumCotangent>{"minimum'0"},
                                             Cotangent<2, MaximumCotangent>{"minimum'1"},
                                             Cotangent<2, FmaxCotangent>{"fmax'0"},
                                             Cotangent<2, FmaxSecondCotangent>{"fmax'1"},
                                             Cotangent<2, FminCotangent>{"fmin'0"},
                                             Cotangent<2, FminSecondCotangent>{"fmin'1"},
                                             Cotangent<3, ClampCotangent>{"clamp_tensor'0"},
                                             Cotangent<3, ClampLowCotangent>{"clamp_tensor'1"},
                                             Cotangent<3, ClampHighCotangent>{"clamp_tensor'2"},
                                             Slope<1, ScalarPowerSlope>{"scalar_pow'0"},
                                             Slope<1, RsubScalarSlope>{"rsub_scalar'0"},
                                             Slope<1, OneWithScalar>{"fmod_scalar'0"}};
};

}  // namespace tessera::kernels::scalar::inline TSR_MACHINE
