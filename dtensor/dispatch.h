// dtensor/dispatch.h: from an op call on DTensors to its local execution: one lookup of a resolved
// call (dtensor/dispatch_cache.h), or propagation where there is none.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "absl/container/inlined_vector.h"
#include "dtensor/dtensor.h"
#include "dtensor/known_op.h"
#include "placement/api.h"

namespace tessera TSR_API {

using Operands = std::span<const DTensor* const>;
using Results = absl::InlinedVector<DTensor, 2>;

/// Runs one op: moves operands where the policy lets it, executes, records. An undefined operand is
/// an absent optional one. Errors: those of propagate(); FailedPrecondition for a forbidden move or
/// a refused in-place write.
Results dispatch(Runtime& runtime, const Op& op, Operands operands, const Attrs& attrs,
                 const Site& site);
struct ResolvedCall;  // dtensor/resolved_call.h
/// A call that was resolved before, on operands of the specs for which it was. Errors: those of its
/// moves and of its kernel.
Results run_resolved(Runtime& runtime, std::shared_ptr<const ResolvedCall> call, Operands operands,
                     const Site& site);
/// What a call reads, and the tensors that take its results.
struct Into {
  Operands operands;
  Operands outs;
};
/// The same, with results written into tensors that exist and never move. Operands that share
/// their storage are read as they were. Errors: those of propagate_into(); InvalidArgument where
/// two of `outs` share storage; FailedPrecondition where a tensor involved needs a gradient, or one
/// of `outs` cannot be written.
Results dispatch_into(Runtime& runtime, const Op& op, const Into& into, const Attrs& attrs,
                      const Site& site);
const Op& find_op(Runtime& runtime, std::string_view name);
const Op& find_op(Runtime& runtime, KnownOp op);

}  // namespace tessera
