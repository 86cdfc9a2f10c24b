// strategies/ops/reduce/lacking.h: what ranks lack of where a tensor is to lie, counted exactly:
// for the few candidates that the search's closed form prices alike.
#pragma once

#include <cstdint>
#include <optional>

#include "placement/spec.h"

namespace tessera::ops {

struct Lacking {
  std::int64_t elements = 0;  ///< of all ranks, of `to`, that `from` does not give them
  std::int64_t largest = 0;   ///< elements of `to` on the rank with most
  auto operator<=>(const Lacking&) const = default;
};

/// Requires specs of one mesh and shape, Partial on the same axes. None on more than 64 ranks, and
/// for dims of more than 2^16 elements: counting would take longer than it is worth. Cost: a merge
/// of runs for each rank and dim.
std::optional<Lacking> lacking_elements(const Spec& from, const Spec& to);

}  // namespace tessera::ops
