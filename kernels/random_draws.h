// kernels/random_draws.h: from a seed, a stream and an index to a value, for every device.
// Uniform values, integers and Bernoulli's are the same everywhere, bit for bit; the others as far
// as the devices' logarithms, exponentials and tangents are.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/next_value.h"
#include "kernels/philox.h"
#include "kernels/random.h"
#include "placement/status.h"

namespace tessera::kernels {
inline namespace TSR_MACHINE {

template <std::size_t N>
TSR_HOST_DEVICE inline double polynomial(const double (&coefficients)[N], double x) {
  double value = 0;
  for (std::size_t i = N; i-- > 0;) value = value * x + coefficients[i];
  return value;
}

/// The standard normal quantile to 16 digits. Source: Wichura, algorithm AS 241 (PPND16), 1988.
TSR_HOST_DEVICE inline double normal_quantile(double p) {
  static constexpr double kA[] = {3.3871328727963666080e0,  1.3314166789178437745e+2,
                                  1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                  4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                  3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr double kB[] = {1.0,
                                  4.2313330701600911252e+1,
                                  6.8718700749205790830e+2,
                                  5.3941960214247511077e+3,
                                  2.1213794301586595867e+4,
                                  3.9307895800092710610e+4,
                                  2.8729085735721942674e+4,
                                  5.2264952788528545610e+3};
  static constexpr double kC[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                  5.76949722146069140550e0,  3.64784832476320460504e0,
                                  1.27045825245236838258e0,  2.41780725177450611770e-1,
                                  2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr double kD[] = {1.0,
                                  2.05319162663775882187e0,
                                  1.67638483018380384940e0,
                                  6.89767334985100004550e-1,
                                  1.48103976427480074590e-1,
                                  1.51986665636164571966e-2,
                                  5.47593808499534494600e-4,
                                  1.05075007164441684324e-9};
  static constexpr double kE[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                  2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                  2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr double kF[] = {1.0,
                                  5.99832206555887937690e-1,
                                  1.36929880922735805310e-1,
                                  1.48753612908506148525e-2,
                                  7.86869131145613259100e-4,
                                  1.84631831751005468180e-5,
                                  1.42151175831644588870e-7,
                                  2.04426310338993978564e-15};
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double tail = q < 0 ? p : 1.0 - p;
  if (tail <= 0) return std::copysign(std::numeric_limits<double>::infinity(), q);
  double r = std::sqrt(-std::log(tail));
  if (r <= 5.0) {
    r -= 1.6;
    return std::copysign(polynomial(kC, r) / polynomial(kD, r), q);
  }
  r -= 5.0;
  return std::copysign(polynomial(kE, r) / polynomial(kF, r), q);
}

inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

/// One draw of 53 bits per element: element i is half of Philox block i / 2, with the stream in the
/// counter.
class Draws {
 public:
  TSR_HOST_DEVICE Draws(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}
  TSR_HOST_DEVICE std::uint64_t bits(std::int64_t index) {
    const std::uint64_t pair = static_cast<std::uint64_t>(index) / 2;
    if (pair != cached_pair_) {
      cached_ = philox4x32(
          {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32),
           static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
          seed_);
      cached_pair_ = pair;
    }
    const bool is_second = index % 2 != 0;  // without indexing: a device would keep it in memory
    const std::uint32_t low = is_second ? cached_[2] : cached_[0];
    const std::uint32_t high = is_second ? cached_[3] : cached_[1];
    return (std::uint64_t{high} << 32 | low) >> 11;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t stream_;
  std::uint64_t cached_pair_ = ~std::uint64_t{0};
  PhiloxBlock cached_{};
};

/// A draw as the distribution's value, in F64.
class Sampler {
 public:
  explicit Sampler(const RandomSpec& spec) : spec_(spec) {
    if (spec.distribution != Distribution::kTruncatedNormal) return;
    low_probability_ = normal_cdf((spec.low - spec.a) / spec.b);
    high_probability_ = normal_cdf((spec.high - spec.a) / spec.b);
  }
  TSR_HOST_DEVICE double value(std::uint64_t bits) const {
    if (spec_.distribution == Distribution::kUniform) {
      const double unit = static_cast<double>(bits) * 0x1p-53;  // [0, 1)
      // With one rounding everywhere: uniform values are the same on all devices.
      return std::fma(spec_.b - spec_.a, unit, spec_.a);
    }
    const double inside = (static_cast<double>(bits) + 0.5) * 0x1p-53;  // (0, 1)
    switch (spec_.distribution) {
      case Distribution::kUniform:
      case Distribution::kNormal:
        return spec_.a + spec_.b * normal_quantile(inside);
      case Distribution::kLogNormal:
        return std::exp(spec_.a + spec_.b * normal_quantile(inside));
      case Distribution::kExponential:
        return -std::log(inside) / spec_.a;
      case Distribution::kCauchy:
        return spec_.a + spec_.b * std::tan(std::numbers::pi * (inside - 0.5));
      case Distribution::kGeometric:
        return std::max(1.0, std::ceil(std::log(inside) / std::log1p(-spec_.a)));
      case Distribution::kBernoulli:
        return static_cast<double>(bits) * 0x1p-53 < spec_.a ? 1.0 : 0.0;
      case Distribution::kInteger:
        return spec_.a + std::floor(static_cast<double>(bits) * 0x1p-53 * (spec_.b - spec_.a));
      case Distribution::kTruncatedNormal:
        break;
    }
    const double p = low_probability_ + (high_probability_ - low_probability_) * inside;
    return std::clamp(spec_.a + spec_.b * normal_quantile(p), spec_.low, spec_.high);
  }

 private:
  RandomSpec spec_;
  double low_probability_ = 0;
  double high_probability_ = 1;
};

/// Integers of a dtype: [low, high).
struct RandomRange {
  double low, high;
};
TSR_HOST_DEVICE constexpr RandomRange range_of(DType dtype) {
  if (dtype == DType::kBool) return {0.0, 2.0};
  if (dtype == DType::kU8) return {0.0, 256.0};
  if (dtype == DType::kI32) return {-0x1p31, 0x1p31};
  return {-0x1p53, 0x1p53};  // of a double that misses none
}

/// Rounded to T; a uniform value that rounds up to `high` becomes the one below it.
template <class T>
TSR_HOST_DEVICE T narrow(const RandomSpec& spec, double value) {
  // A geometric value may be beyond any integer.
  if constexpr (std::is_integral_v<T>) {
    constexpr RandomRange kRange = range_of(dtype_of<T>());
    return convert<T>(std::clamp(value, kRange.low, kRange.high - 1.0));
  }
  const T rounded = convert<T>(value);
  if constexpr (is_floating(dtype_of<T>())) {
    if (spec.distribution == Distribution::kUniform && spec.b > spec.a &&
        convert<double>(rounded) >= spec.b) {
      return next_below(rounded);
    }
  }
  return rounded;
}

}  // namespace TSR_MACHINE

inline void check_drawn(const Shape& global_shape,
                        std::span<const std::vector<std::int64_t>> global_index, const Array& out) {
  bool good =
      global_index.size() == out.shape().size() && global_shape.size() == out.shape().size();
  for (std::size_t d = 0; good && d < global_index.size(); ++d) {
    good = static_cast<std::int64_t>(global_index[d].size()) == out.shape()[d];
  }
  if (good) return;
  throw Error(invalid_argument(
      absl::StrFormat("random: the global indices do not match the output's shape %s of global %s",
                      to_string(out.shape()), to_string(global_shape))));
}

/// Errors: InvalidArgument of check_random().
inline void require_random(const RandomSpec& spec, DType dtype) {
  if (const Status status = check_random(spec, dtype); !status.ok()) {
    throw Error(Status(status.code(), to_absl("random: " + std::string(message_of(status)))));
  }
}

}  // namespace tessera::kernels
