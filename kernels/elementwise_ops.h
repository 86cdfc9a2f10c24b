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

#define TSR_CASE(Function, name) \
  case Op::k##Function:          \
    return f(Function{});
#define TSR_FLOATING_CASE(Function, name)               \
  case Op::k##Function:                                 \
    if constexpr (!kIsInteger<C>) return f(Function{}); \
    break;

/// Calls f(function) of what `op` computes of values of C; integers have no more than they need.
template <class C, class F>
TSR_HOST_DEVICE auto visit_unary(Unary op, F&& f) -> decltype(f(Neg{})) {
  using Op = Unary;
  switch (op) { TSR_UNARY_FUNCTIONS(TSR_CASE, TSR_FLOATING_CASE) }
  return no_function<decltype(f(Neg{}))>("unary");
}
template <class C, class F>
TSR_HOST_DEVICE auto visit_binary(Binary op, F&& f) -> decltype(f(Add{})) {
  using Op = Binary;
  switch (op) { TSR_BINARY_FUNCTIONS(TSR_CASE, TSR_FLOATING_CASE) }
  return no_function<decltype(f(Add{}))>("binary");
}

#undef TSR_CASE
#undef TSR_FLOATING_CASE

inline Status division_by_zero(const char* op) {
  return out_of_range(std::string(op) +
                      ": a divisor is 0, which integers have no quotient by; cast to "
                      "a floating dtype for an infinity or NaN");
}
[[noreturn]] inline void throw_division_by_zero(const char* op) {
  throw Error(division_by_zero(op));
}

// What an op is called, and in which type it computes.

struct Listed {
  std::string_view name;
  bool needs_floating;  ///< integers are computed as floating numbers
};
#define TSR_BOTH(Function, name) {name, false},
#define TSR_FLOATING(Function, name) {name, true},
// Outside of the functions, which would write them down anew at each call.
inline constexpr Listed kUnaryList[] = {TSR_UNARY_FUNCTIONS(TSR_BOTH, TSR_FLOATING)};
inline constexpr Listed kBinaryList[] = {TSR_BINARY_FUNCTIONS(TSR_BOTH, TSR_FLOATING)};
#undef TSR_BOTH
#undef TSR_FLOATING

constexpr const Listed& listed(Unary op) noexcept { return kUnaryList[static_cast<int>(op)]; }
constexpr const Listed& listed(Binary op) noexcept { return kBinaryList[static_cast<int>(op)]; }
constexpr std::string_view name_of(Unary op) noexcept { return listed(op).name; }
constexpr std::string_view name_of(Binary op) noexcept { return listed(op).name; }

/// The dtype to compute in, where the operands' own is `operands`.
template <class Op>
DType compute_dtype(Op op, DType operands, DType out) {
  if (!listed(op).needs_floating || is_floating(operands)) return operands;
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
