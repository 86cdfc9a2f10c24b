// kernels/host/vector_sqrt.h: square roots of a dense block. std::sqrt sets errno, which keeps
// loops from vectorising.
#pragma once

#include <cstdint>

namespace tessera::kernels {

/// out[i] = √x[i]; x and out may be the same block. Below 0 and NaN give NaN.
void square_roots(const float* x, float* out, std::int64_t n);
void square_roots(const double* x, double* out, std::int64_t n);

}  // namespace tessera::kernels
