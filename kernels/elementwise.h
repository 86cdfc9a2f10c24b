// kernels/elementwise.h: copies, casts and maps over elements, with broadcasting.
// Inputs broadcast to the output's shape (dims from the right); outputs are preallocated.
// dtypes: inputs are cast to the computation type promote(inputs), the result to the output's
// dtype.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Unary : std::uint8_t {
  kNeg,
  kAbs,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kRelu,
  kSigmoid,
  kSilu,
  kTanh,
  kGelu,
  kReciprocal,
  kSquare,
  kSign,
  kSin,
  kCos,
  kFloor,
  kCeil,
  kLogicalNot,
  kIsNan
};
enum class Binary : std::uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kLogicalAnd,
  kLogicalOr,
  kFloorDivide,
  kRemainder,
  kReluGrad,     ///< (grad, out) → grad but where out <= 0
  kSigmoidGrad,  ///< (grad, out) → grad·out·(1 − out)
  kTanhGrad,     ///< (grad, out) → grad·(1 − out²)
  kSiluGrad,     ///< (grad, x)
  kGeluGrad      ///< (grad, x), tanh form
};

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
