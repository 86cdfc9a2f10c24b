// strategies/verify/verify_storage.h: does an op compute the same of operands that lie otherwise in
// memory: transposed, with gaps, behind an offset, repeated by a stride of 0? Internal to
// strategies/.
#pragma once

#include <string>

#include "strategies/verify/verify_case.h"

namespace tessera {

/// "" where each operand in each form, and all at once, give what contiguous ones give, forward and
/// (where `table` is given) in the gradient; else the operand, the form, and what came of it. What
/// lies in the gaps may be neither read nor, of an operand that the op writes, written.
std::string storage_error(const Op& op, const VerifyCase& test, const OpTable* table);

}  // namespace tessera
