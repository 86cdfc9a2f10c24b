#include <cmath>

#include "kernels/block_map.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/vector_math.h"
#include "kernels/vector_sqrt.h"

namespace tessera::kernels {
namespace {

constexpr std::string_view name_of(Unary op) noexcept {
  constexpr std::string_view kNames[] = {"neg",   "abs",        "exp",     "log",         "sqrt",
                                         "rsqrt", "relu",       "sigmoid", "silu",        "tanh",
                                         "gelu",  "reciprocal", "square",  "sign",        "sin",
                                         "cos",   "floor",      "ceil",    "logical_not", "is_nan"};
  return kNames[static_cast<int>(op)];
}

constexpr bool needs_floating(Unary op) noexcept {
  switch (op) {
    case Unary::kNeg:
    case Unary::kAbs:
    case Unary::kRelu:
    case Unary::kSquare:
    case Unary::kSign:
    case Unary::kFloor:
    case Unary::kCeil:
    case Unary::kLogicalNot:
    case Unary::kIsNan:
      return false;
    default:
      return true;
  }
}

template <class C>
constexpr bool kIsInteger = std::is_integral_v<C>;
template <class C>
using Wrapping = std::conditional_t<sizeof(C) == 8, std::uint64_t, std::uint32_t>;

struct Neg {
  template <class C>
  static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>{0} - Wrapping<C>(x));
    else
      return -x;
  }
};
struct Abs {
  template <class C>
  static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x < 0 ? Neg::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct Relu {
  template <class C>
  static C apply(C x) {
    return x < C{0} ? C{0} : x;
  }
};
struct Square {
  template <class C>
  static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return static_cast<C>(Wrapping<C>(x) * Wrapping<C>(x));
    else
      return x * x;
  }
};
struct Sign {
  template <class C>
  static C apply(C x) {
    return (x > C{0} ? C{1} : C{0}) - (x < C{0} ? C{1} : C{0});
  }
};
struct Floor {
  template <class C>
  static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x;
    else
      return std::floor(x);
  }
};
struct Ceil {
  template <class C>
  static C apply(C x) {
    if constexpr (kIsInteger<C>)
      return x;
    else
      return std::ceil(x);
  }
};
struct LogicalNot {
  template <class C>
  static C apply(C x) {
    return x == C{0} ? C{1} : C{0};
  }
};
struct IsNan {
  template <class C>
  static C apply(C x) {
    return x != x ? C{1} : C{0};
  }
};

struct Exp {
  static float apply(float x) { return exp_f32(x); }
  static double apply(double x) { return exp_f64(x); }
};
struct Log {
  static float apply(float x) { return log_f32(x); }
  static double apply(double x) { return std::log(x); }
};
struct Sigmoid {
  static float apply(float x) { return sigmoid_f32(x); }
  static double apply(double x) { return sigmoid_f64(x); }
};
struct Silu {
  static float apply(float x) { return silu_f32(x); }
  static double apply(double x) { return silu_f64(x); }
};
struct Tanh {
  static float apply(float x) { return tanh_f32(x); }
  static double apply(double x) { return std::tanh(x); }
};
/// The tanh form: ½·x·(1 + tanh u) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715·x³).
struct Gelu {
  template <class C>
  static C apply(C x) {
    const C twice = C(1.5957691216057308) * (x + C(0.044715) * x * x * x);
    return x * Sigmoid::apply(twice);
  }
};
struct Reciprocal {
  template <class C>
  static C apply(C x) {
    return C{1} / x;
  }
};
struct Sin {
  template <class C>
  static C apply(C x) {
    return std::sin(x);
  }
};
struct Cos {
  template <class C>
  static C apply(C x) {
    return std::cos(x);
  }
};

template <class C>
using UnaryBlock = void (*)(const C* const* in, C* const* out, std::int64_t n);

template <class C, class Op>
void apply_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* x = in[0];
  C* to = out[0];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = Op::apply(x[i]);
}

template <class C>
void sqrt_block(const C* const* in, C* const* out, std::int64_t n) {
  square_roots(in[0], out[0], n);
}

template <class C>
void rsqrt_block(const C* const* in, C* const* out, std::int64_t n) {
  constexpr std::int64_t kCached = 1024;
  for (std::int64_t begin = 0; begin < n; begin += kCached) {
    const std::int64_t count = std::min(kCached, n - begin);
    C* to = out[0] + begin;
    square_roots(in[0] + begin, to, count);
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) to[i] = C{1} / to[i];
  }
}

template <class C>
UnaryBlock<C> floating_block_of(Unary op) {
  if constexpr (!kIsInteger<C>) {
    switch (op) {
      case Unary::kExp:
        return apply_block<C, Exp>;
      case Unary::kLog:
        return apply_block<C, Log>;
      case Unary::kSqrt:
        return sqrt_block<C>;
      case Unary::kRsqrt:
        return rsqrt_block<C>;
      case Unary::kSigmoid:
        return apply_block<C, Sigmoid>;
      case Unary::kSilu:
        return apply_block<C, Silu>;
      case Unary::kTanh:
        return apply_block<C, Tanh>;
      case Unary::kGelu:
        return apply_block<C, Gelu>;
      case Unary::kReciprocal:
        return apply_block<C, Reciprocal>;
      case Unary::kSin:
        return apply_block<C, Sin>;
      case Unary::kCos:
        return apply_block<C, Cos>;
      default:
        break;
    }
  }
  throw Error(internal_error("unary: no kernel for this op"));
}

template <class C>
UnaryBlock<C> block_of(Unary op) {
  switch (op) {
    case Unary::kNeg:
      return apply_block<C, Neg>;
    case Unary::kAbs:
      return apply_block<C, Abs>;
    case Unary::kRelu:
      return apply_block<C, Relu>;
    case Unary::kSquare:
      return apply_block<C, Square>;
    case Unary::kSign:
      return apply_block<C, Sign>;
    case Unary::kFloor:
      return apply_block<C, Floor>;
    case Unary::kCeil:
      return apply_block<C, Ceil>;
    case Unary::kLogicalNot:
      return apply_block<C, LogicalNot>;
    case Unary::kIsNan:
      return apply_block<C, IsNan>;
    default:
      return floating_block_of<C>(op);
  }
}

}  // namespace

void cpu::unary(KernelContext& ctx, Unary op, const Array& x, const Array& out) {
  DType compute = x.dtype();
  if (needs_floating(op) && !is_floating(compute)) {
    require_floating(name_of(op), out.dtype());
    compute = out.dtype();
  }
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    const UnaryBlock<C> block = block_of<C>(op);
    if (out.dtype() == dtype_of<C>() && same_dense(x, out)) {
      parallel_ranges(ctx.threads, out.num_elements(), 8192, 1,
                      [&](std::int64_t begin, std::int64_t end) {
                        const C* in[] = {x.data<C>() + begin};
                        C* to[] = {out.data<C>() + begin};
                        block(in, to, end - begin);
                      });
      return;
    }
    BlockMap<C, 1, 1>(name_of(op), {&out, &x}).run(ctx.threads, block);
  });
}

}  // namespace tessera::kernels
