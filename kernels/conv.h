// kernels/conv.h: convolutions in two dims as products with unfolded windows; in one dim with a
// height of 1. x (N, C, H, W), weight (O, C / groups, KH, KW), out (N, O, OH, OW), all of one
// floating dtype; sums over windows and rows in F32 for BF16 and F16. The number of groups is what
// the channels of x hold of the weight's.
#pragma once

#include "kernels/array.h"
#include "kernels/window.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

void conv2d(KernelContext& ctx, const Array& x, const Array& weight, const WindowPlane& window,
            const Array& out);
/// grad (N, O, OH, OW) → x's cotangent: what a transposed convolution computes.
void conv2d_input_grad(KernelContext& ctx, const Array& grad, const Array& weight,
                       const WindowPlane& window, const Array& grad_x);
void conv2d_weight_grad(KernelContext& ctx, const Array& grad, const Array& x,
                        const WindowPlane& window, const Array& grad_weight);

}  // namespace kernels
}  // namespace tessera
