#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using pattern::Pattern;

/// First to one past the last index held; empty where nothing is.
Interval window_of(const Pattern& held, std::int64_t size) {
  const std::int64_t count = held.held(size);
  if (count == 0) return {0, 0};
  return {held.to_global(size, 0), held.to_global(size, count - 1) + 1};
}

bool same_piece(const Levels& a, const Coord& a_coord, const Levels& b, const Coord& b_coord) {
  if (a != b) return false;
  return std::all_of(a.begin(), a.end(), [&](const Level& level) {
    const auto axis = static_cast<std::size_t>(level.axis);
    return level.kind != Level::Kind::kAxis || a_coord[axis] == b_coord[axis];
  });
}

void append(Run run, std::vector<Run>& runs) {
  if (!runs.empty() && runs.back().src + runs.back().size == run.src &&
      runs.back().dst + runs.back().size == run.dst) {
    runs.back().size += run.size;
  } else {
    runs.push_back(run);
  }
}

}  // namespace

std::vector<Run> intersect(const Mesh& src_mesh, const Levels& src, const Coord& src_coord,
                           const Mesh& dst_mesh, const Levels& dst, const Coord& dst_coord,
                           std::int64_t size) {
  const Pattern of_src(src_mesh, src, src_coord);
  const Pattern of_dst(dst_mesh, dst, dst_coord);
  if (src_mesh == dst_mesh && same_piece(src, src_coord, dst, dst_coord)) {
    const std::int64_t count = of_src.held(size);
    return count > 0 ? std::vector<Run>{{0, 0, count}} : std::vector<Run>{};
  }
  const Interval src_window = window_of(of_src, size);
  const Interval dst_window = window_of(of_dst, size);
  const Interval window{std::max(src_window.start, dst_window.start),
                        std::min(src_window.stop, dst_window.stop)};
  if (window.start >= window.stop) return {};
  std::vector<Interval> a;
  std::vector<Interval> b;
  of_src.intervals(size, window, a);
  of_dst.intervals(size, window, b);
  std::int64_t a_local = of_src.held_below(size, window.start);
  std::int64_t b_local = of_dst.held_below(size, window.start);
  std::vector<Run> runs;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t start = std::max(a[i].start, b[j].start);
    const std::int64_t stop = std::min(a[i].stop, b[j].stop);
    if (start < stop) {
      append({a_local + start - a[i].start, b_local + start - b[j].start, stop - start}, runs);
    }
    if (a[i].stop <= b[j].stop) {
      a_local += a[i].stop - a[i].start;
      ++i;
    } else {
      b_local += b[j].stop - b[j].start;
      ++j;
    }
  }
  return runs;
}

}  // namespace tessera
