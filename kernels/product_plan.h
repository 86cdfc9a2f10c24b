// kernels/product_plan.h: a product of arrays as batches of products of matrices, for devices whose
// libraries take those. A batch is products of one shape whose operands lie evenly apart.
#pragma once

#include <optional>
#include <vector>

#include "kernels/array.h"

namespace tessera::kernels {

/// Strides in elements; a batch stride of 0 repeats one matrix.
struct BatchMatrix {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t row_stride = 0, col_stride = 1, batch_stride = 0;

  BatchMatrix transposed() const { return {data, dtype, col_stride, row_stride, batch_stride}; }
};

/// out[i] (m x n) = a[i] (m x k) · b[i] (k x n).
struct BatchProduct {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  BatchMatrix a, b, out;

  /// The same, as outᵀ = bᵀ·aᵀ.
  BatchProduct transposed() const {
    return {n, m, k, batch, b.transposed(), a.transposed(), out.transposed()};
  }
};

/// Strides of x along the leading dims of `out`, 0 where x repeats.
Shape batch_strides(const Array& x, const Array& out);

/// As few as strides allow; rows of leading dims are rows of one matrix where b repeats. Requires
/// check_product_shapes(), and elements in out.
std::vector<BatchProduct> batch_products(const Array& a, const Array& b, const Array& out);

/// A rows x cols matrix as columns that lie `leading` elements apart, or as the transpose of such.
struct ColumnMajor {
  bool transposed;
  std::int64_t leading;
};
/// Null where neither stride is 1, or lines overlap.
std::optional<ColumnMajor> as_column_major(std::int64_t rows, std::int64_t cols,
                                           const BatchMatrix& matrix);

/// Matrices as BLAS takes them: rows x cols as they lie, which a product may take transposed.
struct ColumnMatrix {
  std::byte* data;
  DType dtype;
  bool transposed;
  std::int64_t rows, cols, leading, batch_stride;
};
/// out[i] = left[i] · right[i], where out is never transposed.
struct ColumnProduct {
  ColumnMatrix left, right, out;
  std::int64_t batch;
};
/// Whether batches of the array's matrices may be part of a column_product().
bool has_column_form(const Array& array);
/// The same product, as outᵀ = bᵀ·aᵀ where out lies in rows. Requires has_column_form() of all
/// operands.
ColumnProduct column_product(const BatchProduct& product);

}  // namespace tessera::kernels
