// kernels/cuda/product.h: dense products on a device, by its library or by a kernel of our own.
// Operands are those of kernels::matmul, checked, with elements in out and a depth above 0.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/product_plan.h"

namespace tessera::kernels::TSR_CUDA {

/// By cuBLASLt on a card (F32 without TF32, halves with sums in F32); by tiled_product() where it
/// has no algorithm. In the emulation by the processor's kernel at the stream's turn, with its
/// bits.
void library_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out);

/// Of any strides, with sums in F32, or F64 for F64, in the order of their depth.
void tiled_product(KernelContext& ctx, const Array& a, const Array& b, const Array& out);
void tiled_product(KernelContext& ctx, const BatchProduct& product);

}  // namespace tessera::kernels::TSR_CUDA
