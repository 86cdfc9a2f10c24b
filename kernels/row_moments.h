// kernels/row_moments.h: count, mean and squared deviations of parts, joined, on every device.
// Source: Chan, Golub, LeVeque.
#pragma once

#include <cmath>

#include "kernels/lines.h"

namespace tessera::kernels {

struct Moments {
  double count = 0.0;
  double mean = 0.0;
  double deviations = 0.0;  ///< sum of squares of x − mean
};

TSR_HOST_DEVICE inline Moments combined(const Moments& a, const Moments& b) {
  if (a.count == 0.0) return b;
  if (b.count == 0.0) return a;
  const double count = a.count + b.count;
  const double gap = b.mean - a.mean;
  // Where a mean is infinite, or the gap too large for a double, the mean is no sum with the gap.
  const double mean = std::isfinite(gap) ? a.mean + gap * (b.count / count)
                                         : a.mean * (a.count / count) + b.mean * (b.count / count);
  return {count, mean, a.deviations + b.deviations + gap * gap * (a.count * b.count / count)};
}

inline Shape with_first(std::int64_t size, Shape shape) {
  shape.insert(shape.begin(), size);
  return shape;
}

inline void check_moments(const char* kernel, const Array& out, const Shape& wanted) {
  check_shape(kernel, "out", out, wanted);
  if (out.dtype() != DType::kF64 || !out.is_contiguous()) {
    throw_dtype(kernel, out.dtype(), "contiguous F64 for the moments");
  }
}
inline void check_combine_moments(const Array& parts, const Array& out) {
  check_shape("combine_moments", "parts", parts, with_first(parts.size(0), out.shape()));
  check_moments("combine_moments", out, with_first(3, without_dim(out.shape(), 0)));
}

}  // namespace tessera::kernels
