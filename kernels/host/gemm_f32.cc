#include <dnnl.h>
#include <omp.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "kernels/host/dnnl_product.h"
#include "kernels/host/gemm.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

struct Operand {
  char form;  // 'N' as it lies, 'T' transposed
  std::int64_t line_stride;
};

Operand operand_of(std::int64_t rows, std::int64_t cols, MatrixView<const float> m) {
  const bool plain = (m.col_stride == 1 || cols == 1) && (m.row_stride >= cols || rows == 1);
  if (plain) return {'N', std::max({m.row_stride, cols, std::int64_t{1}})};
  return {'T', std::max({m.col_stride, rows, std::int64_t{1}})};
}

}  // namespace

bool is_dense_matrix(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                     std::int64_t col_stride) noexcept {
  const bool plain = (col_stride == 1 || cols == 1) && (row_stride >= cols || rows == 1);
  const bool turned = (row_stride == 1 || rows == 1) && (col_stride >= rows || cols == 1);
  return plain || turned;
}

void gemm(const GemmCall& call, MatrixView<const float> a, MatrixView<const float> b,
          MatrixView<float> c) {
  if (call.k == 0) {  // the library leaves c as it is
    const auto beta = static_cast<float>(call.beta);
    for (std::int64_t i = 0; i < call.m; ++i) {
      for (std::int64_t j = 0; j < call.n; ++j)
        *c.at(i, j) = beta == 0.0F ? 0.0F : beta * *c.at(i, j);
    }
    return;
  }
  const Operand a_form = operand_of(call.m, call.k, a);
  const Operand b_form = operand_of(call.k, call.n, b);
  settle_library();
  // The library takes its thread count from this thread's OpenMP setting.
  if (omp_get_max_threads() != call.threads) omp_set_num_threads(call.threads);
  const dnnl_status_t status = dnnl_sgemm(
      a_form.form, b_form.form, call.m, call.n, call.k, static_cast<float>(call.alpha), a.data,
      a_form.line_stride, b.data, b_form.line_stride, static_cast<float>(call.beta), c.data,
      std::max({c.row_stride, call.n, std::int64_t{1}}));
  if (status != dnnl_success) {
    throw Error(internal_error(absl::StrFormat("sgemm: the library refuses %dx%dx%d (status %d)",
                                               call.m, call.n, call.k, static_cast<int>(status))));
  }
}

}  // namespace tessera::kernels
