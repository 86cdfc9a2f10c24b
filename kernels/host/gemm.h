// kernels/host/gemm.h: one matrix product on raw memory, the piece that products and attention are
// made of. A MatrixView has any two strides, in elements; F32 wants one of them to be 1.
#pragma once

#include <cstdint>

#include "kernels/bfloat16.h"

namespace tessera::kernels {

template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;

  T* at(std::int64_t row, std::int64_t col = 0) const {
    return data + row * row_stride + col * col_stride;
  }
  MatrixView transposed() const { return {data, col_stride, row_stride}; }
  MatrixView from_row(std::int64_t row) const { return {at(row), row_stride, col_stride}; }
};

/// c (m x n) = alpha · a (m x k) · b (k x n) + beta · c; beta = 0 never reads c.
struct GemmCall {
  std::int64_t m = 0, n = 0, k = 0;
  double alpha = 1.0;
  double beta = 0.0;
  int threads = 1;
};

/// Each view has a unit stride and the other at least as long as its line (a line of one element is
/// always fine); c's unit stride is col_stride. Errors: Internal where the library refuses.
void gemm(const GemmCall& call, MatrixView<const float> a, MatrixView<const float> b,
          MatrixView<float> c);
/// Sums in F32; beta is 0 or 1. A primitive is made for each shape and alpha (dnnl_product.h).
void gemm(const GemmCall& call, MatrixView<const BFloat16> a, MatrixView<const BFloat16> b,
          MatrixView<float> c);
/// Whether this machine multiplies BF16 faster than F32.
bool has_bf16_products();
/// Any strides. An element of c is one fixed sum over k: neither m, n nor threads change its bits.
void gemm(const GemmCall& call, MatrixView<const double> a, MatrixView<const double> b,
          MatrixView<double> c);

/// Whether the library takes a rows x cols matrix of these strides as it is, plain or transposed.
bool is_dense_matrix(std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                     std::int64_t col_stride) noexcept;

}  // namespace tessera::kernels
