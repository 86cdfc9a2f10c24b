// strategies/rules/check_call.h: what can be said of any call by its op's declarations alone:
// before the op's own inference, and of what that infers. Internal to strategies/.
#pragma once

#include <span>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera {

/// Operands: how many, which are there, their sizes, dtypes and dims. Attributes: ranges of ints.
/// Errors: InvalidArgument naming op and operand.
Status check_operands(const Op& op, std::span<const TensorMeta> inputs);
Status check_ranges(const Op& op, const Attrs& attrs);
/// Results: as many as declared, none with a size below 0 or of more than kMaxTensorBytes; and the
/// numbers among the attributes that meet their elements.
Status check_results(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs,
                     std::span<const TensorMeta> results);

}  // namespace tessera
