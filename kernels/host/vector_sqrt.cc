#include "kernels/host/vector_sqrt.h"

// GCC 12 takes the deliberately undefined pass-through operand of AVX-512 intrinsics for a mistake.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <experimental/simd>

namespace tessera::kernels {
namespace {

template <class T>
void square_roots_of(const T* x, T* out, std::int64_t n) {
  namespace simd = std::experimental;
  using Vector = simd::native_simd<T>;
  constexpr auto kLanes = static_cast<std::int64_t>(Vector::size());
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector value(x + i, simd::element_aligned);
    const Vector root = sqrt(value);
    root.copy_to(out + i, simd::element_aligned);
  }
  for (; i < n; ++i) out[i] = std::sqrt(x[i]);
}

}  // namespace

void square_roots(const float* x, float* out, std::int64_t n) { square_roots_of(x, out, n); }
void square_roots(const double* x, double* out, std::int64_t n) { square_roots_of(x, out, n); }

}  // namespace tessera::kernels
