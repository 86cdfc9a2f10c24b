#include "placement/plan_nested_lists.h"

#include <algorithm>
#include <numeric>

#include "placement/layout_pattern.h"
#include "placement/plan_counts.h"

namespace tessera {
namespace {

const Levels& longer(const Levels& a, const Levels& b) { return a.size() < b.size() ? b : a; }

/// Pieces, but for empty ones, into which levels from `next` on cut one of this length.
std::int64_t num_pieces(const Mesh& mesh, const Levels& levels, std::size_t next,
                        std::int64_t length) {
  if (length == 0) return 0;
  if (next >= levels.size()) return 1;
  const std::int64_t chunk = pattern::chunk_of(mesh, levels[next], length);
  const std::int64_t whole = num_pieces(mesh, levels, next + 1, chunk);
  return length / chunk * whole + num_pieces(mesh, levels, next + 1, length % chunk);
}

}  // namespace

bool are_nested(const DimLists& lists) {
  const Levels& also = lists.also != nullptr ? *lists.also : *lists.a;
  const Levels& longest = longer(longer(*lists.a, *lists.b), also);
  const bool cut_by_axes = std::all_of(longest.begin(), longest.end(), [](const Level& level) {
    return level.kind == Level::Kind::kAxis && !level.sizes;
  });
  return cut_by_axes && is_prefix(*lists.a, longest) && is_prefix(*lists.b, longest) &&
         is_prefix(also, longest);
}

std::int64_t count_nested(const Mesh& mesh, std::int64_t size, Overlap::Of of,
                          const DimLists& lists, const Coord& coord) {
  const auto length = [&](const Levels& levels) {
    return pattern::Pattern(mesh, levels, coord).held(size);
  };
  const Levels& held = lists.also != nullptr ? longer(*lists.a, *lists.also) : *lists.a;
  const Levels& b = *lists.b;
  if (of == Overlap::Of::kElements) return length(longer(held, b));
  const std::int64_t held_length = length(held);
  if (held_length == 0) return 0;
  if (b.size() > held.size()) return num_pieces(mesh, b, held.size(), held_length);
  return of == Overlap::Of::kOwners || length(b) == held_length ? 1 : 0;
}

CoordBreaks::CoordBreaks(const Mesh& mesh)
    : mesh_(mesh), of_axis_(static_cast<std::size_t>(mesh.ndim()), {0}) {}

void CoordBreaks::add(int axis, std::int64_t coord) {
  if (coord >= mesh_.size(axis)) return;
  std::vector<std::int64_t>& breaks = of_axis_[static_cast<std::size_t>(axis)];
  const auto at = std::lower_bound(breaks.begin(), breaks.end(), coord);
  if (at == breaks.end() || *at != coord) breaks.insert(at, coord);
}

void CoordBreaks::add(std::int64_t size, const Levels& levels) {
  pattern::Lengths lengths = pattern::lengths_of(size);
  for (const Level& level : levels) {
    for (const std::int64_t length : lengths) {
      const std::int64_t whole = length / pattern::chunk_of(mesh_, level, length);
      add(level.axis, whole);
      add(level.axis, whole + 1);
    }
    lengths = pattern::lengths_after(mesh_, level, lengths);
  }
}

void CoordBreaks::add_all(const Levels& levels) {
  for (const Level& level : levels) {
    if (level.kind != Level::Kind::kAxis) continue;
    std::vector<std::int64_t>& breaks = of_axis_[static_cast<std::size_t>(level.axis)];
    breaks.resize(static_cast<std::size_t>(mesh_.size(level.axis)));
    std::iota(breaks.begin(), breaks.end(), 0);
  }
}

std::int64_t CoordBreaks::coords_from(int axis, std::size_t place) const {
  const std::vector<std::int64_t>& breaks = of(axis);
  return (place + 1 < breaks.size() ? breaks[place + 1] : mesh_.size(axis)) - breaks[place];
}

}  // namespace tessera
