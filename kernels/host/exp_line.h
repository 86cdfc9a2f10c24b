// kernels/host/exp_line.h: exponentials of a line of values, the inner loop of softmax and
// attention. A line is consecutive values of one row.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/vector_math.h"

namespace tessera::kernels {

/// out[j] = e^(line[j] − shift); out may be line.
inline void exp_line(const float* line, std::int64_t n, float shift, float* out) {
#pragma omp simd
  for (std::int64_t j = 0; j < n; ++j) out[j] = exp_f32(line[j] - shift);
}
inline void exp_line(const double* line, std::int64_t n, double shift, double* out) {
  for (std::int64_t j = 0; j < n; ++j) out[j] = std::exp(line[j] - shift);
}

}  // namespace tessera::kernels
