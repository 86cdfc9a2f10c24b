// kernels/host/dnnl_product.h: matrix products by oneDNN primitives, kept per thread and found
// again by their shape. A primitive costs about 80 µs to make and is used only in the thread that
// made it.
#pragma once

#include <cstdint>

#include "kernels/host/gemm.h"
#include "placement/dtype.h"

namespace tessera::kernels {

enum class Accumulate : std::uint8_t { kNo, kYes };

/// What a primitive is made for: equal values share one.
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_strides[2] = {};
  std::int64_t b_strides[2] = {};
  std::int64_t c_line_stride = 0;  ///< the stride along a line of c is 1
  DType in = DType::kF32;
  DType out = DType::kF32;
  Accumulate accumulate = Accumulate::kNo;  ///< c += alpha · a · b
  int threads = 1;
  float alpha = 1.0F;

  bool operator==(const ProductShape&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProductShape& s) {
    return H::combine(std::move(h), s.m, s.n, s.k, s.a_strides[0], s.a_strides[1], s.b_strides[0],
                      s.b_strides[1], s.c_line_stride, s.in, s.out, s.accumulate, s.threads,
                      s.alpha);
  }
};

/// Before any call of the library. Version 2.6 multiplies some shapes of BF16 with tile registers
/// (AMX) that it has not set up, which ends in SIGILL, so it is held to what came before them
/// unless its own variable DNNL_MAX_CPU_ISA is set.
void settle_library();

/// Requires is_dense_matrix() of a and b. Errors: Internal where the library refuses.
/// Cost: about 0.4 µs beyond the product where the shape was used before in this thread.
void dnnl_product(ProductShape shape, const void* a, const void* b, void* c);

}  // namespace tessera::kernels
