// kernels/host/attention_head.h: what attention and its gradient share: one head's rows as
// matrices, and the causal bound. A block is a range of query rows; a chunk a range of keys whose
// scores are held at once.
#pragma once

#include <algorithm>
#include <memory>
#include <type_traits>

#include "kernels/attention_checks.h"
#include "kernels/host/exp_line.h"
#include "kernels/host/gemm.h"
#include "kernels/lines.h"

namespace tessera::kernels {

// Scores of one block and chunk: 64 x 512 F32 take 128 KiB of the L2 cache.
inline constexpr std::int64_t kBlockQueries = 64;
inline constexpr std::int64_t kChunkKeys = 512;

template <class T>
std::unique_ptr<T[]> uninitialised(std::int64_t count) {
  return std::unique_ptr<T[]>(new T[static_cast<std::size_t>(std::max<std::int64_t>(count, 1))]);
}

/// Products over lines that lie far apart run at two thirds of their speed: a head that is used by
/// many blocks is worth a contiguous copy. The choice depends on shapes only, for equal bits on any
/// number of threads.
enum class HeadMemory : std::uint8_t { kAsItLies, kContiguous };
inline HeadMemory head_memory(std::int64_t num_queries) {
  return num_queries > kBlockQueries ? HeadMemory::kContiguous : HeadMemory::kAsItLies;
}

/// Matrices (L, E) of a (B, H, L, E) array of T, seen in the computation type C: in place where the
/// memory is already rows of C, else through a copy that holds one head.
template <class T, class C>
class HeadMatrices {
 public:
  HeadMatrices(const Array& array, HeadMemory memory)
      : array_(array), rows_(array.size(2)), cols_(array.size(3)), direct_(is_direct(memory)) {
    if (!direct_) copy_ = uninitialised<C>(rows_ * cols_);
  }

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }

  /// The head's values; valid until the next call.
  MatrixView<C> load(std::int64_t b, std::int64_t h) {
    const MatrixView<C> view = target(b, h);
    if (direct_) return view;
    const T* from = head(b, h);
    for (std::int64_t i = 0; i < rows_; ++i) {
      const T* line = from + i * array_.strides()[2];
      const C* values = load_line(line, array_.strides()[3], cols_, view.at(i));
      if (values != view.at(i)) std::copy_n(values, cols_, view.at(i));
    }
    return view;
  }
  /// Where to write the head's values; store() brings rows [first, last) into the array.
  MatrixView<C> target(std::int64_t b, std::int64_t h) {
    if (direct_) return {reinterpret_cast<C*>(head(b, h)), std::max(array_.strides()[2], cols_), 1};
    return {copy_.get(), cols_, 1};
  }
  void store(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last) {
    if (direct_) return;
    T* to = head(b, h);
    for (std::int64_t i = first; i < last; ++i) {
      store_line(copy_.get() + i * cols_, cols_, to + i * array_.strides()[2], array_.strides()[3]);
    }
  }

 private:
  bool is_direct(HeadMemory memory) const {
    if (!std::is_same_v<T, C> || (array_.strides()[3] != 1 && cols_ != 1)) return false;
    if (rows_ <= 1) return true;
    return memory == HeadMemory::kContiguous ? array_.strides()[2] == cols_
                                             : array_.strides()[2] >= cols_;
  }
  T* head(std::int64_t b, std::int64_t h) {
    return array_.data<T>() + b * array_.strides()[0] + h * array_.strides()[1];
  }

  const Array& array_;
  std::int64_t rows_, cols_;
  bool direct_;
  std::unique_ptr<C[]> copy_;
};

/// Scores of a block and chunk: computed in C, multiplied with other matrices in P.
template <class C, class P>
class Scores {
 public:
  explicit Scores(std::int64_t count) : values_(uninitialised<C>(count)) {
    if (!std::is_same_v<C, P>) factors_ = uninitialised<P>(count);
  }
  MatrixView<C> values(std::int64_t width) const { return {values_.get(), width, 1}; }
  /// Rounds the values; once for all products of them.
  MatrixView<const P> factors(std::int64_t rows, std::int64_t width) const {
    if constexpr (std::is_same_v<C, P>) {
      return {values_.get(), width, 1};
    } else {
      store_line(values_.get(), rows * width, factors_.get(), 1);
      return {factors_.get(), width, 1};
    }
  }

 private:
  std::unique_ptr<C[]> values_;
  std::unique_ptr<P[]> factors_;
};

template <class T>
MatrixView<const T> as_input(MatrixView<T> m) {
  return {m.data, m.row_stride, m.col_stride};
}

/// Calls f(TypeTag<P>) with the type in which a product takes operands of T that are computed in
/// C: BF16 as it is where the machine multiplies it, sums being F32 anyway.
template <class T, class C, class F>
void visit_factor_type(F&& f) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (has_bf16_products()) return f(TypeTag<BFloat16>{});
  }
  f(TypeTag<C>{});
}

/// line[j] = e^(line[j] − shift) for j < seen, 0 for the rest.
template <class C>
void weigh_line(C* line, std::int64_t seen, std::int64_t width, C shift) {
  exp_line(line, seen, shift, line);
  std::fill(line + seen, line + width, C(0));
}

}  // namespace tessera::kernels
