// strategies/rules/stated_call.h: how a call runs whose placements are all decided: nothing moves,
// and results come out where they were said to.
#pragma once

#include <span>
#include <string_view>

#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

/// What somebody decided about a call.
struct StatedCall {
  std::span<const Spec* const> inputs;   ///< null: an optional operand that is absent
  std::span<const Spec* const> outputs;  ///< on the op's mesh; plain ones where all is plain
  /// As Resolution::why has it, "dp: m, tp: k:sum"; what follows a ";" is not read. Empty: any row
  /// that fits.
  std::string_view row = {};
};

/// The resolution whose inputs and outputs are those stated. Of several rows that fit, the one so
/// called, else the first in the order of the rule. Errors: those of propagate(); InvalidArgument
/// where number, shape or dtype of the results differ from the op's; FailedPrecondition saying what
/// the call would do where no row fits, or none so called.
StatusOr<Resolution> propagate_stated(const Op& op, const StatedCall& stated, const Attrs& attrs);

}  // namespace tessera
