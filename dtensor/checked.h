// dtensor/checked.h: what Runtime's checked mode looks for; without it none of these does
// anything. For this layer's sources only.
#pragma once

#include <span>
#include <string_view>

#include "dtensor/dispatch.h"
#include "dtensor/resolved_call.h"

namespace tessera {

/// Throws FailedPrecondition where a tensor that is R on an axis has other bits on some rank there.
/// Collective: yes, over the axes of size > 1 on which `x` is R.
void check_replicas(const DTensor& x, std::string_view where, const Site& site);
/// Throws OutOfRange on every rank, before the op runs, where an index that a rule marks `#` lies
/// outside the dim that it addresses on any of them; the text names the first such position of the
/// whole operand, and the value. Collective: yes, over the op's mesh.
void check_indices(Runtime& runtime, const ResolvedCall& call, Operands operands, const Site& site);
/// Throws FailedPrecondition on every rank where the summands of `call.sums` are finite on a rank
/// and its results are not: summands times an infinity (or over 0) do not add up to their sum times
/// it. Collective: yes, over the op's mesh.
void check_sums(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                std::span<const Array> outputs, const Site& site);
/// Warns on stderr where a P(sum) cotangent has the same bits on all ranks of an axis, as if it was
/// computed from replicated data. Collective: yes, over the Partial axes.
void warn_if_partial_looks_replicated(const DTensor& cotangent, std::string_view where,
                                      const Site& site);

}  // namespace tessera
