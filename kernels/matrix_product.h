// kernels/matrix_product.h: one 2-D product of any dtype, by the library or kernel that is best for
// its size. Operand is a matrix in untyped memory with its strides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/array.h"

namespace tessera::kernels {

struct Operand {
  std::byte* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 1;
  DType dtype = DType::kF32;

  /// The matrix in the last two dims of `array`, at `offset` elements from its first.
  static Operand of(const Array& array, std::int64_t offset = 0);
  Operand transposed() const { return {data, col_stride, row_stride, dtype}; }
  Operand at(std::int64_t row, std::int64_t col = 0) const {
    return {data + (row * row_stride + col * col_stride) * size_of(dtype), row_stride, col_stride,
            dtype};
  }
};

enum class Target : std::uint8_t { kOverwrite, kAccumulate };

/// How to run a product of m x k by k x n.
struct ProductCall {
  std::int64_t m = 0, n = 0, k = 0;
  int threads = 1;
  /// Shapes come back, so that a cached primitive pays; else F32 takes the form without a set-up.
  enum class Reuse : std::uint8_t { kLikely, kUnlikely } reuse = Reuse::kLikely;
  Target target = Target::kOverwrite;
};

/// Requires takes_operand() of a and b, and of c or its transpose; accumulating into BF16 is not
/// offered.
void multiply(ProductCall call, Operand a, Operand b, Operand c);

/// Whether multiply() takes a rows x cols operand of these strides; others are copied first.
bool takes_operand(std::int64_t rows, std::int64_t cols, const Operand& operand) noexcept;

/// Errors: InvalidArgument unless a and b are of one floating dtype and out is of it, or F32 for
/// BF16.
void check_product_dtypes(const char* op, const Array& a, const Array& b, const Array& out);

}  // namespace tessera::kernels
