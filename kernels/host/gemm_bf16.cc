#include <dnnl.h>

#include "kernels/host/dnnl_product.h"
#include "kernels/host/gemm.h"

namespace tessera::kernels {

bool has_bf16_products() {
  settle_library();
  constexpr auto kWanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & kWanted) == kWanted;
}

void gemm(const GemmCall& call, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b,
          MatrixView<float> c) {
  if (call.m == 0 || call.n == 0) return;
  if (call.k == 0) {  // the library takes no sum of nothing
    for (std::int64_t i = 0; call.beta == 0.0 && i < call.m; ++i) {
      for (std::int64_t j = 0; j < call.n; ++j) *c.at(i, j) = 0.0F;
    }
    return;
  }
  dnnl_product({.m = call.m,
                .n = call.n,
                .k = call.k,
                .a_strides = {a.row_stride, a.col_stride},
                .b_strides = {b.row_stride, b.col_stride},
                .c_line_stride = c.row_stride,
                .in = DType::kBF16,
                .out = DType::kF32,
                .accumulate = call.beta == 0.0 ? Accumulate::kNo : Accumulate::kYes,
                .threads = call.threads,
                .alpha = static_cast<float>(call.alpha)},
               a.data, b.data, c.data);
}

}  // namespace tessera::kernels
