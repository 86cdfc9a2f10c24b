// kernels/cuda/attention_products.h: attention of full precision as products of whole heads, which
// the device's library multiplies several times faster than tiles of ours: scores, and slopes in
// the gradients, lie in memory between the products. Halves have a library of their own.
#pragma once

#include "kernels/attention.h"

namespace tessera::kernels::TSR_CUDA {

/// False, and nothing is done, for halves, few queries or keys, or heads whose scores are too large
/// to keep. Values of keys that a row does not see must be finite: they are weighed with 0.
/// Requires: check_attention().
bool product_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                       const AttentionOptions& options, const Array& out, const Array& lse);
/// Likewise, of attention_grad(). The same bits each time.
bool product_attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                            const Array& v, const Array& out, const Array& lse,
                            const AttentionOptions& options, const AttentionGradients& grads);

}  // namespace tessera::kernels::TSR_CUDA
