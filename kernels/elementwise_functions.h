// kernels/elementwise_functions.h: what elementwise kernels compute of one element, for every
// device. C is a computation type (dtype_switch.h). Each function is a struct with a static
// apply().
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/host_device.h"
#include "kernels/vector_math.h"

namespace tessera::kernels::functions::inline TSR_MACHINE {

template <class C>
inline constexpr bool kIsInteger = std::is_integral_v<C>;
/// Integer arithmetic wraps, as it does in torch; unsigned types make that defined.
template <class C>
using Wrapping = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;

// Of one operand.

struct Neg {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>{0} - Wrapping<C>(x));
    else
      return -x;
  }
};
struct Abs {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct Relu {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return x < C{0} ? C{0} : x;
  }
};
struct Square {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(x) * Wrapping<C>(x));
    else
      return x * x;
  }
};
struct Sign {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return (x > C{0} ? C{1} : C{0}) - (x < C{0} ? C{1} : C{0});
  }
};
struct Floor {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x;
    else
      return std::floor(x);
  }
};
struct Ceil {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x;
    else
      return std::ceil(x);
  }
};
struct LogicalNot {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return x == C{0} ? C{1} : C{0};
  }
};
struct IsNan {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return x != x ? C{1} : C{0};
  }
};

struct Exp {
  TSR_HOST_DEVICE static float apply(float x) { return exp_f32(x); }
  TSR_HOST_DEVICE static double apply(double x) { return exp_f64(x); }
};
struct Log {
  TSR_HOST_DEVICE static float apply(float x) { return log_f32(x); }
  TSR_HOST_DEVICE static double apply(double x) { return std::log(x); }
};
struct Sigmoid {
  TSR_HOST_DEVICE static float apply(float x) { return sigmoid_f32(x); }
  TSR_HOST_DEVICE static double apply(double x) { return sigmoid_f64(x); }
};
struct Silu {
  TSR_HOST_DEVICE static float apply(float x) { return silu_f32(x); }
  TSR_HOST_DEVICE static double apply(double x) { return silu_f64(x); }
};
struct Tanh {
  TSR_HOST_DEVICE static float apply(float x) { return tanh_f32(x); }
  TSR_HOST_DEVICE static double apply(double x) { return std::tanh(x); }
};
/// The tanh form: ½·x·(1 + tanh u) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³).
struct Gelu {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    const C twice = C(1.5957691216057308) * (x + C(0.044715) * x * x * x);
    return x * Sigmoid::apply(twice);
  }
};
struct Sqrt {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return C{1} / std::sqrt(x);
  }
};
struct Reciprocal {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return C{1} / x;
  }
};
struct Sin {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return std::sin(x);
  }
};
struct Cos {
  template <class C>
  TSR_HOST_DEVICE static C apply(C x) {
    return std::cos(x);
  }
};

// Of two.

struct Add {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) + Wrapping<C>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) - Wrapping<C>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) * Wrapping<C>(b));
    else
      return a * b;
  }
};
struct Div {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a / b;
  }
};
struct Maximum {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return a > b ? a : b;
    else
      return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return a < b ? a : b;
    else
      return a < b || a != a ? a : b;
  }
};
struct Pow {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (!kIsInteger<C>)
      return std::pow(a, b);
    else
      return integer_power(a, b);
  }
  template <class C>
  TSR_HOST_DEVICE static C integer_power(C base, C exponent) {
    if (exponent < 0) return base == 1 ? C{1} : base == -1 ? C{exponent % 2 == 0 ? 1 : -1} : C{0};
    Wrapping<C> result = 1;
    for (Wrapping<C> factor = Wrapping<C>(base); exponent > 0; exponent /= 2, factor *= factor) {
      if (exponent % 2 != 0) result *= factor;
    }
    return static_cast<C>(result);
  }
};
struct Eq {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a == b ? C{1} : C{0};
  }
};
struct Ne {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a != b ? C{1} : C{0};
  }
};
struct Lt {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a < b ? C{1} : C{0};
  }
};
struct Le {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a <= b ? C{1} : C{0};
  }
};
struct Gt {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a > b ? C{1} : C{0};
  }
};
struct Ge {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return a >= b ? C{1} : C{0};
  }
};
struct LogicalAnd {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return ((a != C{0}) & (b != C{0})) ? C{1} : C{0};
  }
};
struct LogicalOr {
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    return ((a != C{0}) | (b != C{0})) ? C{1} : C{0};
  }
};

// Rounding towards −∞, with a remainder of the divisor's sign. Source: Python.
struct Remainder {
  static constexpr const char* kName = "remainder";
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>) {
      if (b == -1) return 0;
      const C rest = a % b;
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      const C rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  }
};
struct FloorDivide {
  static constexpr const char* kName = "floor_divide";
  template <class C>
  TSR_HOST_DEVICE static C apply(C a, C b) {
    if constexpr (kIsInteger<C>) {
      if (b == -1) return Sub::apply(C{0}, a);
      const C quotient = a / b;
      return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
    } else {
      if (b == 0) return a / b;
      // Dividing what is left of a without its remainder rounds exactly; floor(a / b) can be one
      // too high. The remainder is that of fmod, which an infinite b leaves finite.
      const C rest = std::fmod(a, b);
      C quotient = (a - rest) / b;
      if (rest != 0 && (rest < 0) != (b < 0)) quotient -= 1;
      if (quotient == 0) return std::copysign(C{0}, a) * std::copysign(C{1}, b);
      const C floored = std::floor(quotient);
      return quotient - floored > C(0.5) ? floored + 1 : floored;
    }
  }
};

/// (grad, out) → grad but where out <= 0.
struct ReluGrad {
  template <class C>
  TSR_HOST_DEVICE static C apply(C grad, C out) {
    return out <= C{0} ? C{0} : grad;
  }
};
/// (grad, out) → grad·out·(1 − out).
struct SigmoidGrad {
  template <class C>
  TSR_HOST_DEVICE static C apply(C grad, C out) {
    return grad * (out * (C{1} - out));
  }
};
/// (grad, out) → grad·(1 − out²).
struct TanhGrad {
  template <class C>
  TSR_HOST_DEVICE static C apply(C grad, C out) {
    return grad * (C{1} - out * out);
  }
};
/// (grad, x).
struct SiluGrad {
  TSR_HOST_DEVICE static float apply(float grad, float x) {
    const float s = sigmoid_f32(x);
    return grad * (s * mul_add(x, 1.0F - s, 1.0F));
  }
  TSR_HOST_DEVICE static double apply(double grad, double x) {
    const double s = sigmoid_f64(x);
    return grad * (s * (1.0 + x * (1.0 - s)));
  }
};
/// (grad, x), tanh form.
struct GeluGrad {
  template <class C>
  TSR_HOST_DEVICE static C apply(C grad, C x) {
    constexpr C kScale = C(0.7978845608028654);  // √(2/π)
    constexpr C kCubic = C(0.044715);
    const C inner = kScale * (x + kCubic * x * x * x);
    const C slope = kScale * (C{1} + C{3} * kCubic * x * x);
    C t;
    if constexpr (std::is_same_v<C, float>)
      t = tanh_f32(inner);
    else
      t = std::tanh(inner);
    return grad * (C(0.5) * (C{1} + t) + C(0.5) * x * (C{1} - t * t) * slope);
  }
};

}  // namespace tessera::kernels::functions::inline TSR_MACHINE
