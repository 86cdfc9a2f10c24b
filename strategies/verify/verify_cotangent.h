// strategies/verify/verify_cotangent.h: how far an infinite or NaN element of a cotangent reaches.
// Internal to strategies/.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "strategies/verify/verify_data.h"

namespace tessera {

/// Whether an element of a result's cotangent that is not finite changes only those elements of the
/// operands' gradients that depend on it. Dependence is probed with the gradient itself, by finite
/// cotangents of that element alone, at the operands and at points close by: a slope that is 0 at
/// one point may multiply, a choice may not. "" if so; else the first element that it reached.
std::string cotangent_error(const OpTable& table, const Op& op, const Attrs& attrs,
                            std::span<const WholeTensor> operands, std::uint64_t seed);

}  // namespace tessera
