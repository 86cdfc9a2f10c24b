// kernels/elementwise.h: copies, casts and maps over elements, with broadcasting.
// Inputs broadcast to the output's shape (dims from the right); outputs are preallocated.
// dtypes: inputs are cast to the computation type promote(inputs), the result to the output's
// dtype.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

// A line for each function: its struct in elementwise_functions.h, which names its enumerator too,
// and its name. Those of `Both` have a form of integers; of integers `Floating` ones are computed
// as floating numbers.
// clang-format off
#define TSR_UNARY_FUNCTIONS(Both, Floating) \
  Both(Neg, "neg")                          \
  Both(Abs, "abs")                          \
  Floating(Exp, "exp")                      \
  Floating(Log, "log")                      \
  Floating(Sqrt, "sqrt")                    \
  Floating(Rsqrt, "rsqrt")                  \
  Both(Relu, "relu")                        \
  Floating(Sigmoid, "sigmoid")              \
  Floating(Silu, "silu")                    \
  Floating(Tanh, "tanh")                    \
  Floating(Gelu, "gelu")                    \
  Floating(Reciprocal, "reciprocal")        \
  Both(Square, "square")                    \
  Both(Sign, "sign")                        \
  Floating(Sin, "sin")                      \
  Floating(Cos, "cos")                      \
  Both(Floor, "floor")                      \
  Both(Ceil, "ceil")                        \
  Both(LogicalNot, "logical_not")           \
  Both(IsNan, "is_nan")
#define TSR_BINARY_FUNCTIONS(Both, Floating) \
  Both(Add, "add")                           \
  Both(Sub, "sub")                           \
  Both(Mul, "mul")                           \
  Floating(Div, "div")                       \
  Both(Maximum, "maximum")                   \
  Both(Minimum, "minimum")                   \
  Both(Pow, "pow")                           \
  Both(Eq, "eq")                             \
  Both(Ne, "ne")                             \
  Both(Lt, "lt")                             \
  Both(Le, "le")                             \
  Both(Gt, "gt")                             \
  Both(Ge, "ge")                             \
  Both(LogicalAnd, "logical_and")            \
  Both(LogicalOr, "logical_or")              \
  Both(FloorDivide, "floor_divide")          \
  Both(Remainder, "remainder")               \
  Both(ReluGrad, "relu_grad")                \
  Floating(SigmoidGrad, "sigmoid_grad")      \
  Floating(TanhGrad, "tanh_grad")            \
  Floating(SiluGrad, "silu_grad")            \
  Floating(GeluGrad, "gelu_grad")
// clang-format on

namespace tessera TSR_API {
namespace kernels {

#define TSR_ENUMERATOR(Function, name) k##Function,
enum class Unary : std::uint8_t { TSR_UNARY_FUNCTIONS(TSR_ENUMERATOR, TSR_ENUMERATOR) };
enum class Binary : std::uint8_t { TSR_BINARY_FUNCTIONS(TSR_ENUMERATOR, TSR_ENUMERATOR) };
#undef TSR_ENUMERATOR

/// Copies with any strides, casting where dtypes differ; NaN and −0.0 bit-exact where they do not.
void copy(KernelContext& ctx, const Array& src, const Array& dst);
/// A contiguous array with the same values: `src` itself where it is contiguous.
Array contiguous(KernelContext& ctx, const Array& src);
void fill(KernelContext& ctx, double value, const Array& out);
/// start + step·i along a 1-D array.
void arange(KernelContext& ctx, double start, double step, const Array& out);

/// Integers and BOOL as `dtype`; floating arrays as they are.
Array integers_as(KernelContext& ctx, const Array& x, DType dtype);

void unary(KernelContext& ctx, Unary op, const Array& x, const Array& out);
void binary(KernelContext& ctx, Binary op, const Array& a, const Array& b, const Array& out);
void binary_scalar(KernelContext& ctx, Binary op, const Array& a, double b, const Array& out);
/// min(max(x, low), high); a NaN among the three wins.
void clamp(KernelContext& ctx, const Array& x, double low, double high, const Array& out);
/// condition ? a : b; condition is BOOL.
void where(KernelContext& ctx, const Array& condition, const Array& a, const Array& b,
           const Array& out);
void masked_fill(KernelContext& ctx, const Array& x, const Array& mask, double value,
                 const Array& out);
/// silu(gate)·up in one pass, and its two gradients in one pass.
void swiglu(KernelContext& ctx, const Array& gate, const Array& up, const Array& out);
void swiglu_grad(KernelContext& ctx, const Array& grad, const Array& gate, const Array& up,
                 const Array& grad_gate, const Array& grad_up);

}  // namespace kernels
}  // namespace tessera
