// kernels/norm.h: softmax, RMSNorm, RoPE, cross-entropy over the last dim, each in one pass over
// the data. Any strides and floating dtypes; BF16 is computed in F32. Results have the same bits on
// any number of threads.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

void softmax(KernelContext& ctx, const Array& x, int dim, const Array& out);
/// out·(grad − Σ grad·out)
void softmax_grad(KernelContext& ctx, const Array& grad, const Array& out, int dim,
                  const Array& grad_x);
void log_softmax(KernelContext& ctx, const Array& x, int dim, const Array& out);

/// x·rstd·weight over the last dim; rstd (…): 1/√(mean x² + eps), in the accumulation type.
void rms_norm(KernelContext& ctx, const Array& x, const Array& weight, double eps, const Array& out,
              const Array& rstd);
/// grad_x, and the sum over rows for grad_weight.
void rms_norm_grad(KernelContext& ctx, const Array& grad, const Array& x, const Array& rstd,
                   const Array& weight, const Array& grad_x, const Array& grad_weight);

enum class Rotation : std::uint8_t { kForward, kInverse };
/// x (..., L, H, E): adjacent pairs (a, b) → (a cos − b sin, a sin + b cos) by table cos, sin (L,
/// E/2) (F32 or F64), computed in F32 (F64 for F64). kInverse is the gradient.
void rope(KernelContext& ctx, const Array& x, const Array& cos, const Array& sin, Rotation rotation,
          const Array& out);

/// Pieces of a cross-entropy over classes that may be cut across ranks. logits (..., V), target ids
/// (...): row maxima (NaN if there is one, −inf without classes); Σ exp(x − max); the target's
/// logit (0 where the id is absent, i.e. −1). Errors: OutOfRange naming the position of any other
/// id outside [0, V).
void row_max(KernelContext& ctx, const Array& logits, const Array& max);
void row_sum_exp(KernelContext& ctx, const Array& logits, const Array& max, const Array& sum);
void row_target(KernelContext& ctx, const Array& logits, const Array& target, const Array& out);
/// (exp(x − lse) − [v == target])·grad; grad (...) or one value for all rows.
void cross_entropy_grad(KernelContext& ctx, const Array& grad, const Array& logits,
                        const Array& target, const Array& lse, const Array& grad_logits);

}  // namespace kernels
}  // namespace tessera
