#include "strategies/rules/window.h"

#include <algorithm>

namespace tessera {

std::vector<WindowPiece> window_pieces(const LocalOp& local, const LoweringStep& step,
                                       std::span<const Coord> group, std::size_t place) {
  std::vector<std::vector<Interval>> held;
  held.reserve(group.size());
  for (const Coord& coord : group) held.push_back(local.intervals_of(step, coord));
  std::vector<WindowPiece> pieces;
  std::int64_t at = 0;
  for (const Interval& window : local.windows_of(step, group[place])) {
    for (std::size_t holder = 0; holder < group.size(); ++holder) {
      std::int64_t before = 0;
      for (const Interval& own : held[holder]) {
        const std::int64_t start = std::max(own.start, window.start);
        const std::int64_t stop = std::min(own.stop, window.stop);
        if (start < stop) {
          pieces.push_back({holder,
                            {.src = before + start - own.start,
                             .dst = at + start - window.start,
                             .size = stop - start}});
        }
        before += own.stop - own.start;
      }
    }
    at += std::max<std::int64_t>(0, window.stop - window.start);
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const WindowPiece& a, const WindowPiece& b) { return a.run.dst < b.run.dst; });
  return pieces;
}

std::vector<Coord> group_coords(const Mesh& mesh, const Coord& coord, std::span<const int> axes) {
  std::vector<Coord> coords = {coord};
  for (const int axis : axes) {
    std::vector<Coord> next;
    next.reserve(coords.size() * static_cast<std::size_t>(mesh.size(axis)));
    for (const Coord& base : coords) {
      for (std::int64_t c = 0; c < mesh.size(axis); ++c) {
        next.push_back(base);
        next.back()[static_cast<std::size_t>(axis)] = c;
      }
    }
    coords = std::move(next);
  }
  return coords;
}

}  // namespace tessera
