// tools/placement_audit/interval_bound.h: how many intervals a rank may hold of a dim, so that a
// request for more than anyone can read is refused before it is worked out.
#pragma once

#include <cstdint>

#include "placement/layout.h"

namespace tessera::audit {

/// At least the intervals of any rank along a dim of `size`. Cost: O(levels).
std::int64_t interval_bound(const Mesh& mesh, std::int64_t size, const Levels& levels);

}  // namespace tessera::audit
