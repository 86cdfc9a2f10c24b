// kernels/lines.h: arrays seen as lines of values along one dim, for kernels that work line by
// line. Lines are numbered row-major over the other dims; a staged array stands in for one of
// another dtype.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "kernels/array.h"
#include "kernels/dtype_switch.h"

namespace tessera::kernels {

/// `sizes` (a shape, or strides) without entry `dim`.
Shape without_dim(const Shape& sizes, int dim);

/// Where line i of each of N arrays begins, in elements. Dims that the arrays walk alike are
/// merged.
template <std::size_t N>
class LineOffsets {
 public:
  using Offsets = std::array<std::int64_t, N>;

  LineOffsets(const Shape& shape, const std::array<Shape, N>& strides) {
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      count_ *= shape[dim];
      if (shape[dim] == 1) continue;
      Offsets steps;
      for (std::size_t k = 0; k < N; ++k) steps[k] = strides[k][dim];
      if (!dims_.empty() && continues(dims_.back().steps, steps, shape[dim])) {
        dims_.back() = {dims_.back().size * shape[dim], steps};
      } else {
        dims_.push_back({shape[dim], steps});
      }
    }
  }

  std::int64_t count() const { return count_; }
  Offsets at(std::int64_t line) const {
    Offsets offsets{};
    for (std::size_t d = dims_.size(); d-- > 0;) {
      // The outermost index needs no division.
      const std::int64_t index = d == 0 ? line : line % dims_[d].size;
      if (d > 0) line /= dims_[d].size;
      for (std::size_t k = 0; k < N; ++k) offsets[k] += index * dims_[d].steps[k];
    }
    return offsets;
  }

 private:
  struct Dim {
    std::int64_t size;
    Offsets steps;
  };
  static bool continues(const Offsets& outer, const Offsets& inner, std::int64_t inner_size) {
    for (std::size_t k = 0; k < N; ++k) {
      if (outer[k] != inner[k] * inner_size) return false;
    }
    return true;
  }

  std::int64_t count_ = 1;
  std::vector<Dim> dims_;
};

/// The line in the computation type: its own memory where that serves, else converted into
/// `buffer`.
template <class T, class C>
const C* load_line(const T* data, std::int64_t stride, std::int64_t n, C* buffer) {
  if constexpr (std::is_same_v<T, C>) {
    if (stride == 1) return data;
  }
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = convert<C>(data[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) buffer[i] = convert<C>(data[i * stride]);
  }
  return buffer;
}
/// Where to compute a line that store_line() then brings to `data`.
template <class T, class C>
C* line_target(T* data, std::int64_t stride, C* buffer) {
  if constexpr (std::is_same_v<T, C>) {
    if (stride == 1) return data;
  }
  return buffer;
}
template <class T, class C>
void store_line(const C* line, std::int64_t n, T* data, std::int64_t stride) {
  if constexpr (std::is_same_v<T, C>) {
    if (line == data) return;
  }
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) data[i] = convert<T>(line[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) data[i * stride] = convert<T>(line[i]);
  }
}

/// `x` in `dtype`: itself where it is of it.
Array as_dtype(KernelContext& ctx, const Array& x, DType dtype);

/// An output in the dtype that a kernel writes: the array itself, or a stand-in that finish() casts
/// into it.
class StagedOutput {
 public:
  StagedOutput(KernelContext& ctx, const Array& out, DType dtype);
  const Array& array() const { return staged_; }
  void finish(KernelContext& ctx) const;

 private:
  Array out_;
  Array staged_;
};

/// The widest of the dtypes given. Errors: InvalidArgument, naming `op`, where one is not floating.
DType common_floating(const char* op, std::initializer_list<DType> dtypes);
/// The type in which lines of a floating dtype are computed: F64 for F64, else F32.
inline DType line_dtype(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// Errors: InvalidArgument, naming `op` and `name`, unless x has the shape wanted.
void check_shape(const char* op, const char* name, const Array& x, const Shape& wanted);

/// Calls f(TypeTag<T>) with the C++ type of a floating dtype.
template <class F>
void visit_floating(DType dtype, F&& f) {
  if (dtype == DType::kF64) return f(TypeTag<double>{});
  if (dtype == DType::kF32) return f(TypeTag<float>{});
  if (dtype == DType::kF16) return f(TypeTag<Float16>{});
  f(TypeTag<BFloat16>{});
}

}  // namespace tessera::kernels
