// dtensor/overlap.h: storage that a call both writes and reads. For this layer's sources only.
#pragma once

#include <span>

#include "dtensor/dispatch.h"

namespace tessera {

/// Operands that share storage with one that the call writes, replaced by copies where the kernel
/// could read what it has just written. An equal alias under a pointwise op stays: each element is
/// read before it is written. Local, so ranks may differ in whether they copy.
void separate_overlaps(Runtime& runtime, const Op& op, std::span<Array> inputs);

/// True where `out` may be written by the kernel directly: contiguous, and no operand's storage.
bool writes_directly(const Array& out, std::span<const Array> inputs);

/// Throws FailedPrecondition where `x` has elements that share a place (expand, unfold), or is a
/// view that had to be copied: to write it would not do what it does on one rank.
void check_writable(std::string_view op, const DTensor& x);

/// Throws FailedPrecondition where `x` is a copy of a part of a tensor that was written since: on
/// one rank the view would show what was written.
void check_current(std::string_view op, const DTensor& x);

}  // namespace tessera
