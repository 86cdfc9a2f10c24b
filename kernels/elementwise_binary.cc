#include <cmath>
#include <string>

#include "kernels/block_map.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"

namespace tessera::kernels {
namespace {

constexpr std::string_view name_of(Binary op) noexcept {
  constexpr std::string_view kNames[] = {
      "add",          "sub",         "mul",        "div",          "maximum",   "minimum",
      "pow",          "eq",          "ne",         "lt",           "le",        "gt",
      "ge",           "logical_and", "logical_or", "floor_divide", "remainder", "relu_grad",
      "sigmoid_grad", "tanh_grad",   "silu_grad",  "gelu_grad"};
  return kNames[static_cast<int>(op)];
}

constexpr bool needs_floating(Binary op) noexcept {
  return op == Binary::kDiv || op >= Binary::kSigmoidGrad;
}

template <class C>
constexpr bool kIsInteger = std::is_integral_v<C>;

// Integer arithmetic wraps, as it does in torch; unsigned types make that defined.
template <class C>
using Wrapping = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;

struct Add {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) + Wrapping<C>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) - Wrapping<C>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(a) * Wrapping<C>(b));
    else
      return a * b;
  }
};
struct Div {
  template <class C>
  static C apply(C a, C b) {
    return a / b;
  }
};
struct Maximum {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return a > b ? a : b;
    else
      return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (kIsInteger<C>)
      return a < b ? a : b;
    else
      return a < b || a != a ? a : b;
  }
};
struct Pow {
  template <class C>
  static C apply(C a, C b) {
    if constexpr (!kIsInteger<C>)
      return std::pow(a, b);
    else
      return integer_power(a, b);
  }
  template <class C>
  static C integer_power(C base, C exponent) {
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
  static C apply(C a, C b) {
    return a == b ? C{1} : C{0};
  }
};
struct Ne {
  template <class C>
  static C apply(C a, C b) {
    return a != b ? C{1} : C{0};
  }
};
struct Lt {
  template <class C>
  static C apply(C a, C b) {
    return a < b ? C{1} : C{0};
  }
};
struct Le {
  template <class C>
  static C apply(C a, C b) {
    return a <= b ? C{1} : C{0};
  }
};
struct Gt {
  template <class C>
  static C apply(C a, C b) {
    return a > b ? C{1} : C{0};
  }
};
struct Ge {
  template <class C>
  static C apply(C a, C b) {
    return a >= b ? C{1} : C{0};
  }
};
struct LogicalAnd {
  template <class C>
  static C apply(C a, C b) {
    return ((a != C{0}) & (b != C{0})) ? C{1} : C{0};
  }
};
struct LogicalOr {
  template <class C>
  static C apply(C a, C b) {
    return ((a != C{0}) | (b != C{0})) ? C{1} : C{0};
  }
};

// Rounding towards −∞, with a remainder of the divisor's sign. Source: Python.
struct Remainder {
  static constexpr const char* kName = "remainder";
  template <class C>
  static C apply(C a, C b) {
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
  static C apply(C a, C b) {
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

struct ReluGrad {
  template <class C>
  static C apply(C grad, C out) {
    return out <= C{0} ? C{0} : grad;
  }
};
struct SigmoidGrad {
  template <class C>
  static C apply(C grad, C out) {
    return grad * (out * (C{1} - out));
  }
};
struct TanhGrad {
  template <class C>
  static C apply(C grad, C out) {
    return grad * (C{1} - out * out);
  }
};
struct SiluGrad {
  static float apply(float grad, float x) {
    const float s = sigmoid_f32(x);
    return grad * (s * mul_add(x, 1.0F - s, 1.0F));
  }
  static double apply(double grad, double x) {
    const double s = sigmoid_f64(x);
    return grad * (s * (1.0 + x * (1.0 - s)));
  }
};
struct GeluGrad {
  template <class C>
  static C apply(C grad, C x) {
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

template <class C>
using BinaryBlock = void (*)(const C* const* in, C* const* out, std::int64_t n);

template <class C, class Op>
void apply_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* a = in[0];
  const C* b = in[1];
  C* to = out[0];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = Op::apply(a[i], b[i]);
}

template <class C, class Op>
void divide_integer_block(const C* const* in, C* const* out, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (in[1][i] == 0) {
      throw Error(out_of_range(std::string(Op::kName) +
                               ": a divisor is 0, which integers have no quotient by; cast to "
                               "a floating dtype for an infinity or NaN"));
    }
    out[0][i] = Op::apply(in[0][i], in[1][i]);
  }
}

template <class C, class Op>
BinaryBlock<C> division_block() {
  if constexpr (kIsInteger<C>)
    return divide_integer_block<C, Op>;
  else
    return apply_block<C, Op>;
}

template <class C>
BinaryBlock<C> floating_block_of(Binary op) {
  if constexpr (!kIsInteger<C>) {
    switch (op) {
      case Binary::kDiv:
        return apply_block<C, Div>;
      case Binary::kSigmoidGrad:
        return apply_block<C, SigmoidGrad>;
      case Binary::kTanhGrad:
        return apply_block<C, TanhGrad>;
      case Binary::kSiluGrad:
        return apply_block<C, SiluGrad>;
      case Binary::kGeluGrad:
        return apply_block<C, GeluGrad>;
      default:
        break;
    }
  }
  throw Error(internal_error("binary: no kernel for this op"));
}

template <class C>
BinaryBlock<C> block_of(Binary op) {
  switch (op) {
    case Binary::kAdd:
      return apply_block<C, Add>;
    case Binary::kSub:
      return apply_block<C, Sub>;
    case Binary::kMul:
      return apply_block<C, Mul>;
    case Binary::kMaximum:
      return apply_block<C, Maximum>;
    case Binary::kMinimum:
      return apply_block<C, Minimum>;
    case Binary::kPow:
      return apply_block<C, Pow>;
    case Binary::kEq:
      return apply_block<C, Eq>;
    case Binary::kNe:
      return apply_block<C, Ne>;
    case Binary::kLt:
      return apply_block<C, Lt>;
    case Binary::kLe:
      return apply_block<C, Le>;
    case Binary::kGt:
      return apply_block<C, Gt>;
    case Binary::kGe:
      return apply_block<C, Ge>;
    case Binary::kLogicalAnd:
      return apply_block<C, LogicalAnd>;
    case Binary::kLogicalOr:
      return apply_block<C, LogicalOr>;
    case Binary::kFloorDivide:
      return division_block<C, FloorDivide>();
    case Binary::kRemainder:
      return division_block<C, Remainder>();
    case Binary::kReluGrad:
      return apply_block<C, ReluGrad>;
    default:
      return floating_block_of<C>(op);
  }
}

/// The dtype to compute in, where the operands' own is `operands`.
DType compute_dtype(Binary op, DType operands, DType out) {
  if (!needs_floating(op) || is_floating(operands)) return operands;
  require_floating(name_of(op), out);
  return out;
}

/// Integer division by zero throws, which must not happen inside a parallel region.
int threads_for(const KernelContext& ctx, Binary op, DType compute) {
  const bool may_throw =
      (op == Binary::kFloorDivide || op == Binary::kRemainder) && !is_floating(compute);
  return may_throw ? 1 : ctx.threads;
}

template <class C>
constexpr bool is_whole(double value) noexcept {
  constexpr double kLimit = sizeof(C) == 8 ? 9223372036854775808.0 : 2147483648.0;
  return value >= -kLimit && value < kLimit && value == static_cast<double>(static_cast<C>(value));
}

DType scalar_compute_dtype(Binary op, DType a, double b, DType out) {
  const DType compute = compute_dtype(op, a, out);
  if (is_floating(compute)) return compute;
  if (compute != DType::kI64 && is_whole<std::int32_t>(b)) return compute;
  return is_whole<std::int64_t>(b) ? DType::kI64 : DType::kF64;
}

}  // namespace

Array integers_as(KernelContext& ctx, const Array& x, DType dtype) {
  if (is_floating(x.dtype())) return x;
  const Array cast = Array::empty(x.shape(), dtype, ctx.allocator);
  copy(ctx, x, cast);
  return cast;
}

void cpu::binary(KernelContext& ctx, Binary op, const Array& a, const Array& b, const Array& out) {
  const DType promoted = promote(a.dtype(), b.dtype());
  const bool mixed = is_floating(a.dtype()) != is_floating(b.dtype());
  if (mixed && size_of(promoted) == 2) {  // computed in F32, which holds more integers
    return cpu::binary(ctx, op, integers_as(ctx, a, promoted), integers_as(ctx, b, promoted), out);
  }
  const DType compute = compute_dtype(op, promoted, out.dtype());
  const int threads = threads_for(ctx, op, compute);
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    const BinaryBlock<C> block = block_of<C>(op);
    if (out.dtype() == dtype_of<C>() && same_dense(a, out) && same_dense(b, out)) {
      parallel_ranges(threads, out.num_elements(), 8192, 1,
                      [&](std::int64_t begin, std::int64_t end) {
                        const C* in[] = {a.data<C>() + begin, b.data<C>() + begin};
                        C* to[] = {out.data<C>() + begin};
                        block(in, to, end - begin);
                      });
      return;
    }
    BlockMap<C, 1, 2>(name_of(op), {&out, &a, &b}).run(threads, block);
  });
}

void cpu::binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out) {
  const DType compute = scalar_compute_dtype(op, a.dtype(), b, out.dtype());
  const int threads = threads_for(ctx, op, compute);
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    const BinaryBlock<C> block = block_of<C>(op);
    alignas(64) C scalars[kStagedElements];
    std::fill_n(scalars, std::min(kStagedElements, out.num_elements()), static_cast<C>(b));
    const auto run_block = [&](const C* const* in, C* const* to, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += kStagedElements) {
        const C* inputs[] = {in[0] + i, scalars};
        C* outputs[] = {to[0] + i};
        block(inputs, outputs, std::min(kStagedElements, n - i));
      }
    };
    BlockMap<C, 1, 1>(name_of(op), {&out, &a}).run(threads, run_block);
  });
}

}  // namespace tessera::kernels
