// dtensor/op_node.h: the history of ops, for the backward pass. For this layer's sources only.
#pragma once

#include <memory>
#include <span>

#include "dtensor/dispatch.h"
#include "dtensor/resolved_call.h"

namespace tessera {

/// The history of a call just made, if any operand needs a gradient.
void record_call(const std::shared_ptr<const ResolvedCall>& call, Operands operands,
                 std::span<const DTensor> results, const Site& site);

/// The same local data under `as`, a spec of a mesh on which the tensor counts as R; recorded.
DTensor promote_scalar(const DTensor& x, const Spec* as, const Site& site);

}  // namespace tessera
