// strategies/verify/sample_calls.h: an op's samples as calls with values: what another system
// computes the same from, to compare.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/api.h"
#include "strategies/verify/verify.h"

namespace tessera TSR_API {

/// Each sample on a mesh of one rank, with the values that verification draws for it and what this
/// engine computes of them. Throws Error for a sample that the op refuses.
std::vector<VerifyRepro> sample_calls(const Op& op, std::uint64_t seed);

}  // namespace tessera
