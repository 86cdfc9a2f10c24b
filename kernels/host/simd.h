// kernels/host/simd.h: 64-byte vectors of one element type, and reductions whose order of additions
// is fixed. The order depends on the length only, never on alignment, so equal rows give equal bits
// anywhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace tessera::kernels {

template <class T>
struct SimdOf {
  typedef T Vec __attribute__((vector_size(64)));
  static constexpr std::int64_t kLanes = 64 / static_cast<std::int64_t>(sizeof(T));
};
template <class T>
using Vec = typename SimdOf<T>::Vec;
template <class T>
inline constexpr std::int64_t kLanes = SimdOf<T>::kLanes;

template <class T>
[[gnu::always_inline]] inline Vec<T> load_vec(const T* data) {
  Vec<T> vec;
  std::memcpy(&vec, data, sizeof vec);
  return vec;
}
/// The first `count` < kLanes elements; the other lanes hold `fill`.
template <class T>
[[gnu::always_inline]] inline Vec<T> load_vec_part(const T* data, std::int64_t count, T fill) {
  Vec<T> vec = Vec<T>{} + fill;
  std::memcpy(&vec, data, static_cast<std::size_t>(count) * sizeof(T));
  return vec;
}
template <class T>
[[gnu::always_inline]] inline void store_vec(T* data, Vec<T> vec) {
  std::memcpy(data, &vec, sizeof vec);
}

template <class T>
[[gnu::always_inline]] inline T sum_lanes(Vec<T> vec) {
  T lanes[kLanes<T>];
  store_vec(lanes, vec);
  for (std::int64_t width = kLanes<T> / 2; width > 0; width /= 2) {
    for (std::int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
/// Lane-wise maximum that drops NaN in `b` and keeps `a` there.
template <class T>
[[gnu::always_inline]] inline Vec<T> max_vec(Vec<T> a, Vec<T> b) {
  return b > a ? b : a;
}

/// Σ term(vector index) over n elements: four interleaved accumulators, then a tree.
template <class T, class LoadTerm>
[[gnu::always_inline]] inline T sum_terms(std::int64_t n, LoadTerm&& term) {
  Vec<T> acc[4] = {};
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    for (int j = 0; j < 4; ++j) acc[j] += term(i + j * kStep, kStep);
  }
  for (int j = 0; i < n; i += kStep, ++j) acc[j] += term(i, n - i < kStep ? n - i : kStep);
  return sum_lanes<T>((acc[0] + acc[1]) + (acc[2] + acc[3]));
}

template <class T>
inline T sum_of(const T* x, std::int64_t n) {
  return sum_terms<T>(n, [x](std::int64_t i, std::int64_t count) {
    return count == kLanes<T> ? load_vec(x + i) : load_vec_part(x + i, count, T(0));
  });
}
template <class T>
inline T dot_of(const T* x, const T* y, std::int64_t n) {
  return sum_terms<T>(n, [x, y](std::int64_t i, std::int64_t count) {
    return count == kLanes<T>
               ? load_vec(x + i) * load_vec(y + i)
               : load_vec_part(x + i, count, T(0)) * load_vec_part(y + i, count, T(0));
  });
}
/// −inf for n = 0; NaN is passed over.
template <class T>
inline T max_of(const T* x, std::int64_t n) {
  constexpr T kLowest = -std::numeric_limits<T>::infinity();
  constexpr std::int64_t kStep = kLanes<T>;
  Vec<T> best = Vec<T>{} + kLowest;
  std::int64_t i = 0;
  for (; i + kStep <= n; i += kStep) best = max_vec<T>(best, load_vec(x + i));
  if (i < n) best = max_vec<T>(best, load_vec_part(x + i, n - i, kLowest));
  T lanes[kStep];
  store_vec(lanes, best);
  T result = kLowest;
  for (const T lane : lanes) result = lane > result ? lane : result;
  return result;
}

/// −inf for n = 0; NaN if any value is NaN.
template <class T>
inline T max_or_nan_of(const T* x, std::int64_t n) {
  T best = max_of(x, n);
  std::int64_t nans = 0;
  for (std::int64_t i = 0; i < n; ++i) nans += x[i] != x[i] ? 1 : 0;
  if (nans > 0) best = std::numeric_limits<T>::quiet_NaN();
  return best;
}

}  // namespace tessera::kernels
