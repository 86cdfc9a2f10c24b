// tests/kernels/sample_arrays.h: arrays of known random values in many memory forms, and
// comparisons with references. A form says how the same values lie in memory; references are
// computed in double by plain loops.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/array.h"
#include "kernels/elementwise.h"

namespace tessera::testing {

enum class Form { kPlain, kTransposed, kPadded, kSpaced };

/// Values uniform in [−1, 1), rounded to `dtype`.
inline std::vector<double> random_values(std::int64_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = uniform(engine);
  return values;
}

/// An uninitialised array of the form: last two dims stored the other way round, lines with 3
/// elements between them, or every second element of a line.
inline Array empty_in_form(const Shape& shape, DType dtype, Form form) {
  const auto ndim = static_cast<int>(shape.size());
  if (form == Form::kTransposed && ndim >= 2) {
    Shape stored = shape;
    std::swap(stored[stored.size() - 1], stored[stored.size() - 2]);
    return Array::zeros(stored, dtype).transpose(ndim - 1, ndim - 2);
  }
  if (form == Form::kPadded) {
    Shape stored = shape;
    stored.back() += 3;
    return Array::zeros(stored, dtype).slice(ndim - 1, 1, 1 + shape.back());
  }
  if (form == Form::kSpaced) {
    Shape stored = shape;
    stored.push_back(2);
    const Array wide = Array::zeros(stored, dtype);
    Shape strides = wide.strides();
    strides.pop_back();
    return wide.as_strided(shape, strides, wide.offset());
  }
  return Array::zeros(shape, dtype);
}

inline Array array_in_form(const Shape& shape, DType dtype, Form form,
                           const std::vector<double>& values) {
  KernelContext ctx;
  Array array = empty_in_form(shape, dtype, form);
  kernels::copy(ctx, Array::from_values(shape, dtype, values), array);
  return array;
}
inline Array random_array(const Shape& shape, DType dtype, unsigned seed,
                          Form form = Form::kPlain) {
  return array_in_form(shape, dtype, form, random_values(num_elements(shape), seed));
}

/// Half a unit in the last place of 1.
inline double rounding(DType dtype) {
  if (dtype == DType::kF64) return std::ldexp(1.0, -53);
  return dtype == DType::kF32 ? std::ldexp(1.0, -24) : std::ldexp(1.0, -8);
}

/// The largest |got − want| / (|want| + floor); NaN and infinities count as 0 where both agree,
/// else as infinity.
inline double worst_error(const std::vector<double>& got, const std::vector<double>& want,
                          double floor = 1.0) {
  if (got.size() != want.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i]) || std::isinf(want[i])) {
      const bool agrees = std::isnan(want[i]) ? std::isnan(got[i]) : got[i] == want[i];
      if (!agrees) return std::numeric_limits<double>::infinity();
      continue;
    }
    const double error = std::abs(got[i] - want[i]) / (std::abs(want[i]) + floor);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

inline bool same_bits(const Array& a, const Array& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  if (x.size() != y.size()) return false;
  return x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0;
}

inline KernelContext context_of(int threads) {
  KernelContext ctx;
  ctx.threads = threads;
  return ctx;
}

/// The message of the Error that `call` throws, or "" without one.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace tessera::testing
