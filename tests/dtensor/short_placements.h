// tests/dtensor/short_placements.h: placements by the letters that rules and errors print.
#pragma once

#include "placement/placement.h"

namespace tessera::testing {

inline const Replicate R{};
inline const Partial P{};
inline Shard S(int dim) { return Shard{dim}; }

}  // namespace tessera::testing
