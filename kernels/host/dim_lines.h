// kernels/host/dim_lines.h: the lines of arrays along one dim, for scans, sorts and searches.
// A line is the elements that differ in that dim's coordinate only.
#pragma once

#include <initializer_list>

#include "kernels/parallel_loop.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {

/// Lines of several arrays of equal shape outside `dim`.
class DimLines {
 public:
  DimLines(int dim, std::initializer_list<const Array*> arrays);

  std::int64_t count() const noexcept { return count_; }
  /// Elements between neighbours of a line of array `operand`.
  std::int64_t stride(int operand) const noexcept { return line_stride_[operand]; }

  /// f(offsets of the lines' first elements), lines shared among threads. f must not throw.
  template <class F>
  void for_each(int threads, F&& f) const {
    parallel_ranges(threads, count_, 1, line_elements_,
                    [&](std::int64_t begin, std::int64_t end) { for_range(begin, end, f); });
  }
  /// The same over lines [begin, end) on the calling thread; f may throw.
  template <class F>
  void for_range(std::int64_t begin, std::int64_t end, F&& f) const;

 private:
  int ndim_ = 0;
  int operands_ = 0;
  std::int64_t count_ = 1;
  std::int64_t line_elements_ = 1;
  std::int64_t size_[kMaxDims];
  std::int64_t stride_[kMaxOperands][kMaxDims];
  Offsets line_stride_{};
};

template <class F>
void DimLines::for_range(std::int64_t begin, std::int64_t end, F&& f) const {
  if (begin >= end) return;  // a dim may be of size 0
  std::int64_t coord[kMaxDims];
  Offsets offsets{};
  std::int64_t rest = begin;
  for (int d = 0; d < ndim_; ++d) {
    coord[d] = rest % size_[d];
    rest /= size_[d];
    for (int k = 0; k < operands_; ++k) offsets[k] += coord[d] * stride_[k][d];
  }
  for (std::int64_t line = begin; line < end; ++line) {
    f(offsets);
    for (int d = 0; d < ndim_; ++d) {
      for (int k = 0; k < operands_; ++k) offsets[k] += stride_[k][d];
      if (++coord[d] < size_[d]) break;
      for (int k = 0; k < operands_; ++k) offsets[k] -= size_[d] * stride_[k][d];
      coord[d] = 0;
    }
  }
}

}  // namespace tessera::kernels
