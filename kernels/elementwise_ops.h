// kernels/elementwise_ops.h: from an elementwise op to its function, its name and the type in which
// it computes, for every device.
#pragma once

#include <cmath>
#include <string>
#include <string_view>
#include <type_traits>

#include "kernels/array.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_functions.h"
#include "placement/status.h"

namespace tessera::kernels::functions {

/// Division by 0 has no answer among integers.
template <class Op>
inline constexpr bool kDividesBy = std::is_same_v<Op, FloorDivide> || std::is_same_v<Op, Remainder>;

/// Host code throws; device code is never asked.
template <class R>
TSR_HOST_DEVICE R no_function([[maybe_unused]] const char* kernel) {
#if defined(__CUDA_ARCH__)
  __trap();
#else
  throw Error(internal_error(std::string(kernel) + ": no function of this dtype for this op"));
#endif
}

/// Calls f(function) of what `op` computes of values of C; integers have no more than they need.
template <class C, class F>
TSR_HOST_DEVICE auto visit_unary(Unary op, F&& f) -> decltype(f(Neg{})) {
  if constexpr (!kIsInteger<C>) {
    switch (op) {
      case Unary::kExp:
        return f(Exp{});
      case Unary::kLog:
        return f(Log{});
      case Unary::kSqrt:
        return f(Sqrt{});
      case Unary::kRsqrt:
        return f(Rsqrt{});
      case Unary::kSigmoid:
        return f(Sigmoid{});
      case Unary::kSilu:
        return f(Silu{});
      case Unary::kTanh:
        return f(Tanh{});
      case Unary::kGelu:
        return f(Gelu{});
      case Unary::kReciprocal:
        return f(Reciprocal{});
      case Unary::kSin:
        return f(Sin{});
      case Unary::kCos:
        return f(Cos{});
      default:
        break;
    }
  }
  switch (op) {
    case Unary::kNeg:
      return f(Neg{});
    case Unary::kAbs:
      return f(Abs{});
    case Unary::kRelu:
      return f(Relu{});
    case Unary::kSquare:
      return f(Square{});
    case Unary::kSign:
      return f(Sign{});
    case Unary::kFloor:
      return f(Floor{});
    case Unary::kCeil:
      return f(Ceil{});
    case Unary::kLogicalNot:
      return f(LogicalNot{});
    case Unary::kIsNan:
      return f(IsNan{});
    default:
      return no_function<decltype(f(Neg{}))>("unary");
  }
}

/// Calls f(function) of what `op` computes of values of C; integers have no more than they need.
template <class C, class F>
TSR_HOST_DEVICE auto visit_binary(Binary op, F&& f) -> decltype(f(Add{})) {
  if constexpr (!kIsInteger<C>) {
    switch (op) {
      case Binary::kDiv:
        return f(Div{});
      case Binary::kSigmoidGrad:
        return f(SigmoidGrad{});
      case Binary::kTanhGrad:
        return f(TanhGrad{});
      case Binary::kSiluGrad:
        return f(SiluGrad{});
      case Binary::kGeluGrad:
        return f(GeluGrad{});
      default:
        break;
    }
  }
  switch (op) {
    case Binary::kAdd:
      return f(Add{});
    case Binary::kSub:
      return f(Sub{});
    case Binary::kMul:
      return f(Mul{});
    case Binary::kMaximum:
      return f(Maximum{});
    case Binary::kMinimum:
      return f(Minimum{});
    case Binary::kPow:
      return f(Pow{});
    case Binary::kEq:
      return f(Eq{});
    case Binary::kNe:
      return f(Ne{});
    case Binary::kLt:
      return f(Lt{});
    case Binary::kLe:
      return f(Le{});
    case Binary::kGt:
      return f(Gt{});
    case Binary::kGe:
      return f(Ge{});
    case Binary::kLogicalAnd:
      return f(LogicalAnd{});
    case Binary::kLogicalOr:
      return f(LogicalOr{});
    case Binary::kFloorDivide:
      return f(FloorDivide{});
    case Binary::kRemainder:
      return f(Remainder{});
    case Binary::kReluGrad:
      return f(ReluGrad{});
    default:
      return no_function<decltype(f(Add{}))>("binary");
  }
}

inline Status division_by_zero(const char* op) {
  return out_of_range(std::string(op) +
                      ": a divisor is 0, which integers have no quotient by; cast to "
                      "a floating dtype for an infinity or NaN");
}
[[noreturn]] inline void throw_division_by_zero(const char* op) {
  throw Error(division_by_zero(op));
}

// What an op is called, and in which type it computes.

// Outside of the functions, which would write them down anew at each call.
inline constexpr std::string_view kUnaryNames[] = {
    "neg",     "abs",  "exp",   "log",  "sqrt",        "rsqrt",  "relu",
    "sigmoid", "silu", "tanh",  "gelu", "reciprocal",  "square", "sign",
    "sin",     "cos",  "floor", "ceil", "logical_not", "is_nan"};
inline constexpr std::string_view kBinaryNames[] = {
    "add",          "sub",         "mul",        "div",          "maximum",   "minimum",
    "pow",          "eq",          "ne",         "lt",           "le",        "gt",
    "ge",           "logical_and", "logical_or", "floor_divide", "remainder", "relu_grad",
    "sigmoid_grad", "tanh_grad",   "silu_grad",  "gelu_grad"};

constexpr std::string_view name_of(Unary op) noexcept { return kUnaryNames[static_cast<int>(op)]; }

/// Integers are computed as floating numbers.
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

inline DType compute_dtype(Unary op, DType x, DType out) {
  if (!needs_floating(op) || is_floating(x)) return x;
  require_floating(name_of(op), out);
  return out;
}

constexpr std::string_view name_of(Binary op) noexcept {
  return kBinaryNames[static_cast<int>(op)];
}

constexpr bool needs_floating(Binary op) noexcept {
  return op == Binary::kDiv || op >= Binary::kSigmoidGrad;
}

/// The dtype to compute in, where the operands' own is `operands`.
inline DType compute_dtype(Binary op, DType operands, DType out) {
  if (!needs_floating(op) || is_floating(operands)) return operands;
  require_floating(name_of(op), out);
  return out;
}

template <class C>
constexpr bool is_whole(double value) noexcept {
  constexpr double kLimit = sizeof(C) == 8 ? 9223372036854775808.0 : 2147483648.0;
  return value >= -kLimit && value < kLimit && value == static_cast<double>(static_cast<C>(value));
}

/// For a second operand that is a number: integers stay such where it is one that they hold.
inline DType scalar_compute_dtype(Binary op, DType a, double b, DType out) {
  const DType compute = compute_dtype(op, a, out);
  if (is_floating(compute)) return compute;
  if (compute != DType::kI64 && is_whole<std::int32_t>(b)) return compute;
  return is_whole<std::int64_t>(b) ? DType::kI64 : DType::kF64;
}

// Conditions and bounds.

inline void require_bool(std::string_view kernel, const Array& mask) {
  if (mask.dtype() != DType::kBool) throw_dtype(kernel, mask.dtype(), "BOOL for the condition");
}

/// The smallest whole bound not below `low` for integers, as values cannot lie between.
template <class C>
C lower_bound_of(double low) {
  return convert<C>(std::is_integral_v<C> ? std::ceil(low) : low);
}
template <class C>
C upper_bound_of(double high) {
  return convert<C>(std::is_integral_v<C> ? std::floor(high) : high);
}

}  // namespace tessera::kernels::functions
