// strategies/verify/verify_derived.h: samples made from a sample: with dims of no element and of
// one, and with numbers among the attributes that are special. Internal to strategies/.
#pragma once

#include <vector>

#include "strategies/rules/op.h"

namespace tessera {

/// Each replaces one size of the sample by 0 or by 1 wherever it stands, or one number among the
/// attributes by 0, an infinity or NaN. What the op refuses by its shapes and attributes is left
/// out.
std::vector<Sample> derived_samples(const Op& op, const Sample& sample);

}  // namespace tessera
