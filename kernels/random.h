// kernels/random.h: counter-based random values: f(seed, stream, global row-major index), so that
// every placement of a tensor holds the same numbers. Source: Philox4x32-10.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Distribution : std::uint8_t {
  kUniform,          ///< low + (high − low)·u, u in [0, 1)
  kNormal,           ///< mean a, std b, by the inverse CDF: one draw per element
  kTruncatedNormal,  ///< mean a, std b, kept inside absolute bounds [low, high], by inverse CDF
  kLogNormal,        ///< e to a normal value of mean a, std b
  kExponential,      ///< rate a
  kCauchy,           ///< median a, half-width b
  kGeometric,        ///< tries until the first success of probability a, from 1
  kBernoulli,        ///< 1 with probability a, else 0
  kInteger           ///< integers in [a, b)
};
struct RandomSpec {
  Distribution distribution = Distribution::kUniform;
  double a = 0.0, b = 1.0;       ///< low, high for kUniform; mean, std else
  double low = 0.0, high = 0.0;  ///< bounds of kTruncatedNormal
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
};
/// Whether there is such a distribution, of values that `dtype` holds. Errors: InvalidArgument.
Status check_random(const RandomSpec& spec, DType dtype);
/// Fills out; `global_index[d][i]` is the global index of local element i along dim d,
/// `global_shape` the whole.
void random(KernelContext& ctx, const RandomSpec& spec, const Shape& global_shape,
            std::span<const std::vector<std::int64_t>> global_index, const Array& out);
/// Stream id of a name: a 64-bit FNV-1a hash.
std::uint64_t stream_of(std::string_view name);

}  // namespace kernels
}  // namespace tessera
