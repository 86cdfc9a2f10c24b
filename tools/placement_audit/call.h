// tools/placement_audit/call.h: one op call as JSON gives it: mesh, op, operands, attributes.
// Operands stand in the op's order; a list operand's items follow one another.
#pragma once

#include <vector>

#include "io/json.h"
#include "strategies/op.h"

namespace tessera::audit {

struct Call {
  const Op* op = nullptr;
  std::vector<std::optional<Spec>> operands;  ///< none: an optional operand that is absent
  Attrs attrs;                                ///< complete
};

/// Reads {mesh, op, args: [{tensor, placements} | number | null | list], attrs}. A number is a 0-d
/// operand on every rank, of the first tensor's dtype. Errors: those of the values; NotFound for an
/// unknown op.
StatusOr<Call> read_call(const JsonView& root, const OpTable& table);

}  // namespace tessera::audit
