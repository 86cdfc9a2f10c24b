// kernels/matmul.h: matrix products. F32 and BF16 by oneDNN (accumulating in F32), F64 by a blocked
// kernel. Any strides with one unit-stride matrix dim; others are copied first. Every product
// repeats bit for bit; F64 and grouped products have the same bits on any number of threads, and in
// F64 an element has them in any product that holds it.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// out[..., m, n] = a[..., m, k] · b[..., k, n]; leading dims broadcast. 2-D b with leading dims on
/// a is one product. a and b are of one floating dtype, out of it or F32 for BF16. Errors:
/// InvalidArgument with shapes or dtypes.
void matmul(KernelContext& ctx, const Array& a, const Array& b, const Array& out);
/// Rows of x_TK in consecutive groups of counts_E (I64; sum ≤ T, rows beyond are zeroed): group e
/// times w_EKN[e]. Pass transposed views for other orders. Empty groups give nothing; T may be 0.
void grouped_matmul(KernelContext& ctx, const Array& x_TK, const Array& w_EKN,
                    const Array& counts_E, const Array& out_TN);
/// grad_w_EKN[e] = x_group(e)ᵀ · grad_group(e); zeros for an empty group.
void grouped_matmul_weight_grad(KernelContext& ctx, const Array& x_TK, const Array& grad_TN,
                                const Array& counts_E, const Array& grad_w_EKN);

}  // namespace kernels
}  // namespace tessera
