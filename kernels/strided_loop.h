// kernels/strided_loop.h: one loop nest over several operands of any strides.
// Dims of size 1 go, dims that lie evenly in all operands merge, and the rest are ordered by the
// first operand's strides: dense operands become one dim, whatever their shape.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "kernels/array.h"
#include "kernels/dtype_switch.h"

namespace tessera::kernels {

inline constexpr int kMaxOperands = 7;
/// Elements converted at a time when an operand cannot be read in place.
inline constexpr std::int64_t kStagedElements = 512;

using Offsets = std::array<std::int64_t, kMaxOperands>;

/// `outer` rows of `inner` elements; strides in elements.
struct RowBlock {
  std::int64_t inner = 0, inner_stride = 0;
  std::int64_t outer = 1, outer_stride = 0;
};

class StridedLoop {
 public:
  /// Operands after the first broadcast to its shape (dims from the right). Errors: InvalidArgument
  /// naming `kernel` and the two shapes.
  StridedLoop(std::string_view kernel, std::span<const Array* const> operands);

  std::int64_t total() const noexcept { return total_; }
  int ndim() const noexcept { return ndim_; }
  /// Dim 0 is the innermost.
  std::int64_t size(int dim) const noexcept { return size_[dim]; }
  std::int64_t stride(int operand, int dim) const noexcept { return stride_[operand][dim]; }
  /// Element i of the loop is element i from the operand's first, for every i.
  bool is_linear(int operand) const noexcept;

  /// f(offsets, n) for the pieces of innermost rows that make up elements [begin, end).
  template <class F>
  void for_rows(std::int64_t begin, std::int64_t end, F&& f) const;
  /// f(offset, RowBlock) for the pieces of one operand in elements [begin, end), in order.
  template <class F>
  void for_row_blocks(int operand, std::int64_t begin, std::int64_t end, F&& f) const;

 private:
  void append_dim(std::int64_t size, const Offsets& strides) noexcept;
  void sort_dims() noexcept;
  void merge_dims() noexcept;

  int operands_;
  int ndim_ = 0;
  std::int64_t total_ = 1;
  std::int64_t size_[kMaxDims];
  std::int64_t stride_[kMaxOperands][kMaxDims];
};

/// Throws InvalidArgument unless `array` has exactly `shape`.
void require_shape(std::string_view kernel, std::string_view operand, const Array& array,
                   const Shape& shape);
/// Throws InvalidArgument unless x has a dim `dim` (from 0).
void require_dim(std::string_view kernel, const Array& x, int dim);

/// Both contiguous, of one shape and dtype.
inline bool same_dense(const Array& a, const Array& b) noexcept {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.is_contiguous() && b.is_contiguous();
}

template <class F>
void StridedLoop::for_rows(std::int64_t begin, std::int64_t end, F&& f) const {
  if (begin >= end) return;  // a dim may be of size 0
  std::int64_t coord[kMaxDims];
  coord[0] = 0;  // there is a dim always, which the analyzer does not know
  Offsets offsets{};
  std::int64_t rest = begin;
  for (int d = 0; d < ndim_; ++d) {
    coord[d] = rest % size_[d];
    rest /= size_[d];
    for (int k = 0; k < operands_; ++k) offsets[k] += coord[d] * stride_[k][d];
  }
  for (std::int64_t position = begin; position < end;) {
    const std::int64_t n = std::min(size_[0] - coord[0], end - position);
    f(offsets, n);
    position += n;
    if (position >= end) return;
    for (int k = 0; k < operands_; ++k) offsets[k] -= coord[0] * stride_[k][0];
    coord[0] = 0;
    for (int d = 1; d < ndim_; ++d) {
      for (int k = 0; k < operands_; ++k) offsets[k] += stride_[k][d];
      if (++coord[d] < size_[d]) break;
      for (int k = 0; k < operands_; ++k) offsets[k] -= size_[d] * stride_[k][d];
      coord[d] = 0;
    }
  }
}

template <class F>
void StridedLoop::for_row_blocks(int operand, std::int64_t begin, std::int64_t end, F&& f) const {
  const std::int64_t* stride = stride_[operand];
  std::int64_t position = begin;
  while (position < end) {
    std::int64_t coord1 = 0;
    std::int64_t rest = position;
    std::int64_t offset = 0;
    const std::int64_t coord0 = rest % size_[0];
    for (int d = 0; d < ndim_; ++d) {
      const std::int64_t coord = rest % size_[d];
      rest /= size_[d];
      if (d == 1) coord1 = coord;
      offset += coord * stride[d];
    }
    const std::int64_t left = end - position;
    if (coord0 != 0 || left < size_[0] || ndim_ == 1) {
      const std::int64_t n = std::min(size_[0] - coord0, left);
      f(offset, RowBlock{.inner = n, .inner_stride = stride[0]});
      position += n;
    } else {
      const std::int64_t rows = std::min(left / size_[0], size_[1] - coord1);
      f(offset, RowBlock{size_[0], stride[0], rows, stride[1]});
      position += rows * size_[0];
    }
  }
}

}  // namespace tessera::kernels
