// What a random op may ask for, told without a device.
#include "kernels/random.h"

#include "absl/strings/str_format.h"
#include "kernels/random_draws.h"

namespace tessera::kernels {
namespace {

Status check_range(const RandomSpec& spec, DType dtype) {
  if (!(spec.a < spec.b)) {
    return invalid_argument(
        absl::StrFormat("integers in [%g, %g), but the range is empty", spec.a, spec.b));
  }
  const auto [low, high] = range_of(dtype);
  if (spec.a >= low && spec.b <= high) return absl::OkStatus();
  return invalid_argument(
      absl::StrFormat("integers in [%.17g, %.17g), but %s takes those in [%.17g, %.17g)", spec.a,
                      spec.b, std::string(name_of(dtype)), low, high));
}

}  // namespace

Status check_random(const RandomSpec& spec, DType dtype) {
  switch (spec.distribution) {
    case Distribution::kInteger:
      return check_range(spec, dtype);
    case Distribution::kBernoulli:
      if (spec.a >= 0 && spec.a <= 1) return absl::OkStatus();
      return invalid_argument(absl::StrFormat("%g is no probability in [0, 1]", spec.a));
    case Distribution::kGeometric:
      if (spec.a > 0 && spec.a <= 1) return absl::OkStatus();
      return invalid_argument(absl::StrFormat("%g is no probability in (0, 1]", spec.a));
    case Distribution::kExponential:
      if (spec.a > 0) break;
      return invalid_argument(absl::StrFormat("the rate %g must be > 0", spec.a));
    case Distribution::kTruncatedNormal:
      if (spec.low < spec.high && spec.b > 0) break;
      return invalid_argument(
          absl::StrFormat("truncated normal needs low < high and std > 0, not [%g, %g], std %g",
                          spec.low, spec.high, spec.b));
    default:
      break;
  }
  if (is_floating(dtype)) return absl::OkStatus();
  return invalid_argument("dtype " + std::string(name_of(dtype)) +
                          " is not supported; allowed: F64, F32, BF16, F16");
}

}  // namespace tessera::kernels
