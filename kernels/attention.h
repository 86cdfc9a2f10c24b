// kernels/attention.h: causal scaled-dot-product attention in blocks; L x L is never built for long
// L. q, k: (B, H, Lq|Lk, E); v: (B, H, Lk, V); any strides. F32 and BF16 are computed in F32.
// Results have the same bits on any number of threads. Keys that a row does not see have no part in
// its result, whatever they hold; for gradients, and where cuDNN computes, they must be finite too.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

struct AttentionOptions {
  double scale = 1.0;
  bool causal = true;
  /// Global position of q's row 0 minus that of k's row 0: row i sees keys j <= i + causal_offset.
  std::int64_t causal_offset = 0;
};

/// out (B, H, Lq, V), lse (B, H, Lq) in the accumulation type: log of the sum of exp of the scaled
/// scores. A row that sees no key gives 0 and lse −inf.
void attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
               const AttentionOptions& options, const Array& out, const Array& lse);
/// The same with a mask that broadcasts to (B, H, Lq, Lk): BOOL is true where a query sees a key; a
/// floating one is added to the scaled scores. Builds one head's scores at a time.
void masked_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                      const Array& mask, double scale, const Array& out, const Array& lse);
struct AttentionGradients {
  Array q, k, v;  ///< preallocated
};
void attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                    const Array& v, const Array& out, const Array& lse,
                    const AttentionOptions& options, const AttentionGradients& grads);

}  // namespace kernels
}  // namespace tessera
