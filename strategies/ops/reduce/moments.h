// strategies/ops/reduce/moments.h: count, mean and squared deviations of the elements along dims,
// in F64: what ranks put up and join where statistics run over a cut dim, however uneven.
#pragma once

#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// The parts of moments (3, …), in order.
enum class Moment : std::uint8_t { kCount, kMean, kDeviations };

/// Moments of x along dims as one part (1, 3, kept dims...), ready to be gathered along dim 0.
Array moments_over(KernelCall& call, const Array& x, const std::vector<int>& dims);
/// Parts (p, 3, …) → the whole's (3, …).
Array joined_moments(KernelCall& call, const Array& parts);
/// One of the moments (3, …), an alias of shape (…).
Array moment(const Array& moments, Moment which);

}  // namespace tessera::ops
