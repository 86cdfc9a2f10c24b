#include "strategies/ops/reduce/lacking.h"

#include <algorithm>

namespace tessera::ops {
namespace {

constexpr std::int64_t kMostRanks = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 16;  // of a dim

}  // namespace

std::optional<Lacking> lacking_elements(const Spec& from, const Spec& to) {
  const Mesh& mesh = from.mesh();
  const Shape& shape = from.global_shape();
  if (mesh.num_ranks() > kMostRanks ||
      std::ranges::any_of(shape, [](std::int64_t size) { return size > kMostElements; })) {
    return std::nullopt;
  }
  Lacking lacking;
  for (const std::int64_t rank : mesh.ranks()) {
    const Coord coord = *mesh.coord_of(rank);
    std::int64_t needed = 1, held = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const Levels &have = from.layout().dims[d], &want = to.layout().dims[d];
      std::int64_t both = 0;
      for (const Run& run : intersect(mesh, have, coord, mesh, want, coord, shape[d])) {
        both += run.size;
      }
      held *= both;
      needed *= local_size(mesh, shape[d], want, coord);
    }
    lacking.elements += needed - held;
    lacking.largest = std::max(lacking.largest, needed);
  }
  return lacking;
}

}  // namespace tessera::ops
