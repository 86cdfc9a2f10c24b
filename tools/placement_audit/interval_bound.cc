#include "tools/placement_audit/interval_bound.h"

#include <algorithm>

namespace tessera::audit {

std::int64_t interval_bound(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  const std::int64_t held =
      local_size(mesh, size, levels, fullest_coord(mesh, {.dims = {levels}, .partial = {}}));
  std::int64_t pieces = 1;
  for (const Level& level : levels) {
    if (level.kind == Level::Kind::kAxis) continue;
    const std::int64_t factor = level.kind == Level::Kind::kBlock
                                    ? level.count
                                    : size / std::max<std::int64_t>(level.count, 1) + 1;
    if (factor >= held / pieces + 1) return held;
    pieces *= factor;
  }
  return std::min(pieces, held);
}

}  // namespace tessera::audit
