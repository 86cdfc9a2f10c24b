// kernels/grouped_plan.h: products of groups of rows as matrices in memory, and which of them a
// card's library takes: what its loads of whole tiles ask of alignment and order. Pure.
#pragma once

#include "kernels/product_plan.h"

namespace tessera::kernels {

/// Group e of the rows of x (rows x depth) and of out (rows x cols), and its weights e (depth x
/// cols). One of out and weights is what is computed.
struct GroupedProduct {
  std::int64_t rows = 0, depth = 0, cols = 0, num_groups = 0;
  BatchMatrix x, weights, out;

  static GroupedProduct of(const Array& x_TK, const Array& weights_EKN, const Array& out_TN);
};

/// How a library's kernel reads a matrix: elements of a row, or of a column, side by side.
enum class MatrixOrder : std::uint8_t { kRows, kColumns };
/// Null unless lines lie dense, of a multiple of 16 bytes each, on boundaries of 16 bytes, and
/// apart from each other.
std::optional<MatrixOrder> order_of_lines(std::int64_t rows, std::int64_t cols,
                                          const BatchMatrix& matrix);

/// Whether a library for BF16 takes out = x · weights, and how the weights lie. x and out in rows.
std::optional<MatrixOrder> plan_grouped_product(const GroupedProduct& product);
/// Whether it takes weights = xᵀ · out, all of them in rows.
bool takes_grouped_weight_grad(const GroupedProduct& product);

}  // namespace tessera::kernels
