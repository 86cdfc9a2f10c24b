// strategies/verify/verify_repro.h: a failing call with every rank's values. Internal to
// strategies/.
#pragma once

#include <vector>

#include "strategies/verify/verify.h"
#include "strategies/verify/verify_case.h"

namespace tessera {

VerifyRepro make_repro(const Op& op, const VerifyCase& test, const Mesh& mesh,
                       const Resolution& resolution,
                       const std::vector<std::vector<Array>>& operands);
/// Arrays of their own, for ops that write their operands.
std::vector<std::vector<Array>> copies_of(const std::vector<std::vector<Array>>& operands);

}  // namespace tessera
