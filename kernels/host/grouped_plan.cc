#include "kernels/grouped_plan.h"

#include <limits>

namespace tessera::kernels {
namespace {

constexpr std::int64_t kLineBytes = 16;  // what a copy of a tile moves at least, and its alignment

bool is_aligned(std::int64_t elements, DType dtype) {
  return elements * size_of(dtype) % kLineBytes == 0;
}

BatchMatrix matrices_of(const Array& array) {
  const std::size_t ndim = array.strides().size();
  return {array.bytes(), array.dtype(), array.strides()[ndim - 2], array.strides()[ndim - 1],
          ndim > 2 ? array.strides()[ndim - 3] : 0};
}

/// Sizes that a library counts in 32 bits, none of them 0.
bool has_sizes(const GroupedProduct& product) {
  const auto fits = [](std::int64_t size) {
    return size > 0 && size <= std::numeric_limits<std::int32_t>::max();
  };
  return fits(product.rows) && fits(product.depth) && fits(product.cols) &&
         fits(product.num_groups);
}
bool has_dtypes(const GroupedProduct& product) {
  return product.x.dtype == DType::kBF16 && product.weights.dtype == DType::kBF16 &&
         product.out.dtype == DType::kBF16;
}
bool lies_in_rows(std::int64_t rows, std::int64_t cols, const BatchMatrix& matrix) {
  return order_of_lines(rows, cols, matrix) == MatrixOrder::kRows;
}

}  // namespace

GroupedProduct GroupedProduct::of(const Array& x_TK, const Array& weights_EKN,
                                  const Array& out_TN) {
  return {.rows = x_TK.size(0),
          .depth = x_TK.size(1),
          .cols = out_TN.size(1),
          .num_groups = weights_EKN.size(0),
          .x = matrices_of(x_TK),
          .weights = matrices_of(weights_EKN),
          .out = matrices_of(out_TN)};
}

std::optional<MatrixOrder> order_of_lines(std::int64_t rows, std::int64_t cols,
                                          const BatchMatrix& matrix) {
  if (reinterpret_cast<std::uintptr_t>(matrix.data) % kLineBytes != 0 ||
      !is_aligned(matrix.batch_stride, matrix.dtype)) {
    return std::nullopt;
  }
  const auto takes = [&](std::int64_t length, std::int64_t step, std::int64_t stride) {
    return step == 1 && stride >= length && is_aligned(length, matrix.dtype) &&
           is_aligned(stride, matrix.dtype);
  };
  if (takes(cols, matrix.col_stride, matrix.row_stride)) return MatrixOrder::kRows;
  if (takes(rows, matrix.row_stride, matrix.col_stride)) return MatrixOrder::kColumns;
  return std::nullopt;
}

std::optional<MatrixOrder> plan_grouped_product(const GroupedProduct& product) {
  const bool takes = has_sizes(product) && has_dtypes(product) &&
                     lies_in_rows(product.rows, product.depth, product.x) &&
                     lies_in_rows(product.rows, product.cols, product.out);
  if (!takes) return std::nullopt;
  return order_of_lines(product.depth, product.cols, product.weights);
}

bool takes_grouped_weight_grad(const GroupedProduct& product) {
  return has_sizes(product) && has_dtypes(product) &&
         lies_in_rows(product.rows, product.depth, product.x) &&
         lies_in_rows(product.rows, product.cols, product.out) &&
         lies_in_rows(product.depth, product.cols, product.weights);
}

}  // namespace tessera::kernels
