#include "runtime/world.h"

#include <algorithm>
#include <string>

namespace tessera {

StatusOr<Communicator*> World::group_along(const Mesh& mesh, std::span<const int> axes) {
  std::optional<Coord> at = mesh.coord_of(rank());
  if (!at) {
    return invalid_argument("group_along: rank " + std::to_string(rank()) +
                            " is outside the mesh " + mesh.to_string());
  }
  std::int64_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = axes[i];
    const auto before = axes.first(i);
    if (axis < 0 || axis >= mesh.ndim() ||
        std::find(before.begin(), before.end(), axis) != before.end()) {
      return invalid_argument("group_along: axis " + std::to_string(axis) +
                              " is unknown or repeated; allowed: each axis of " + mesh.to_string() +
                              " at most once");
    }
    count *= mesh.size(axis);
  }
  Shape ranks(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t a = axes.size(); a-- > 0;) {
      const std::int64_t size = mesh.size(axes[a]);
      (*at)[static_cast<std::size_t>(axes[a])] = rest % size;
      rest /= size;
    }
    ranks[static_cast<std::size_t>(i)] = mesh.rank_of(*at);
  }
  return group(view_of(ranks));
}

}  // namespace tessera
