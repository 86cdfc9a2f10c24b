// testing/arrays.h: whole arrays for tests: reproducible values and comparisons.
// A whole array is the same on every rank; distribute() cuts it.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/array.h"
#include "kernels/elementwise.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace testing {

/// SplitMix64: the same numbers everywhere. Source: Steele, Lea, Flood 2014.
struct Numbers {
  std::uint64_t state;
  std::uint64_t next() {
    state += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
};

/// Values equal to `seed`-dependent reals in (−1, 1), the same on every rank and machine.
inline Array random_values(const Shape& shape, DType dtype, std::uint64_t seed = 1) {
  Numbers numbers{seed * 7919 + 1};
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (double& each : values) {
    each = static_cast<double>(numbers.next() >> 11) * 0x1.0p-52 - 1.0;
  }
  return Array::from_values(shape, dtype, values);
}

/// Integers in [0, below).
inline Array random_integers(const Shape& shape, std::int64_t below, std::uint64_t seed = 1) {
  Numbers numbers{seed * 104729 + 3};
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (double& each : values) {
    each = static_cast<double>(numbers.next() % static_cast<std::uint64_t>(below));
  }
  return Array::from_values(shape, DType::kI64, values);
}

/// Rows of distinct integers in [0, below) along the last dim.
inline Array unique_rows(const Shape& shape, std::int64_t below, std::uint64_t seed = 1) {
  Numbers numbers{seed * 15485863 + 5};
  const std::int64_t width = shape.back();
  std::vector<double> values;
  for (std::int64_t row = 0; row < num_elements(shape) / width; ++row) {
    std::vector<std::int64_t> pool(static_cast<std::size_t>(below));
    std::iota(pool.begin(), pool.end(), 0);
    for (std::int64_t i = 0; i < width; ++i) {
      const std::uint64_t pick = numbers.next() % pool.size();
      values.push_back(static_cast<double>(pool[pick]));
      pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  return Array::from_values(shape, DType::kI64, values);
}

/// Largest |a − b|; infinite where shapes differ or one is NaN where the other is not.
inline double max_difference(const Array& a, const Array& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return kInfinity;
  const std::vector<double> x = to_host(a).to_vector();
  const std::vector<double> y = to_host(b).to_vector();
  double worst = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) != std::isnan(y[i])) return kInfinity;
    if (x[i] != y[i] && !std::isnan(x[i])) worst = std::max(worst, std::abs(x[i] - y[i]));
  }
  return worst;
}

/// A copy with storage of its own, contiguous, on the host.
inline Array copy_of(const Array& x) {
  KernelContext context;
  Array copy = Array::empty(x.shape(), x.dtype());
  kernels::copy(context, to_host(x), copy);
  return copy;
}

/// True if dtype, shape and every bit agree.
inline bool same_bits(const Array& a, const Array& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const Array x = copy_of(a);
  const Array y = copy_of(b);
  return std::memcmp(x.bytes(), y.bytes(), static_cast<std::size_t>(x.num_bytes())) == 0;
}

}  // namespace testing
}  // namespace tessera
