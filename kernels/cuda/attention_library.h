// kernels/cuda/attention_library.h: attention by cuDNN, whose library is opened when it is first
// asked for. All that it does not take is for the plain kernels.
#pragma once

#include "kernels/attention_plan.h"
#include "kernels/cuda/cuda_device.h"

namespace tessera::kernels::TSR_CUDA {

/// The same as attention() and attention_grad(), but that values of keys which a row does not see
/// must be finite. False, with nothing done, where the library does not take the call, or where it
/// has made no plan for one of this shape and work is captured.
bool run_library_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                           const AttentionOptions& options, const Array& out, const Array& lse);
bool run_library_attention_grad(KernelContext& ctx, const Array& grad, const Array& q,
                                const Array& k, const Array& v, const Array& out, const Array& lse,
                                const AttentionOptions& options, const AttentionGradients& grads);

}  // namespace tessera::kernels::TSR_CUDA
