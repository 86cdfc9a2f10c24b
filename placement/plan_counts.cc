#include "placement/plan_counts.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

Interval interval_of(const Mesh& mesh, std::int64_t size, const Levels& levels,
                     const Coord& coord) {
  const pattern::Pattern held(mesh, levels, coord);
  const std::int64_t count = held.held(size);
  if (count == 0) return {0, 0};
  const std::int64_t start = held.to_global(size, 0);
  return {start, start + count};
}

}  // namespace

bool is_prefix(const Levels& a, const Levels& b) {
  return a.size() <= b.size() && std::equal(a.begin(), a.end(), b.begin());
}

bool is_one_interval(const Levels& levels) {
  return std::all_of(levels.begin(), levels.end(),
                     [](const Level& level) { return level.kind == Level::Kind::kAxis; });
}

std::int64_t num_owners(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b,
                        const Coord& coord) {
  if (is_prefix(b, a)) return pattern::Pattern(mesh, a, coord).held(size) > 0 ? 1 : 0;
  const std::int64_t chunk = pattern::equal_chunk(mesh, size, b);
  if (is_one_interval(a) && is_one_interval(b)) {
    const Interval held = interval_of(mesh, size, a, coord);
    if (held.start == held.stop) return 0;
    if (chunk > 0) return (held.stop - 1) / chunk - held.start / chunk + 1;
    std::int64_t owners = 0;  // each owns one interval
    for (std::int64_t index = held.start; index < held.stop; ++owners) {
      index = pattern::stretch_at(mesh, size, b, index).stop;
    }
    return owners;
  }
  absl::flat_hash_set<std::int64_t> owners;
  for (const Interval& held : local_intervals(mesh, size, a, coord)) {
    for (std::int64_t index = held.start; index < held.stop;) {
      const pattern::Stretch stretch = pattern::stretch_at(mesh, size, b, index);
      owners.insert(mesh.rank_of(stretch.coord));
      index = stretch.stop;
    }
  }
  return static_cast<std::int64_t>(owners.size());
}

std::int64_t overlap_size(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b,
                          const Coord& coord) {
  if (is_prefix(a, b)) return pattern::Pattern(mesh, b, coord).held(size);
  if (is_prefix(b, a)) return pattern::Pattern(mesh, a, coord).held(size);
  if (is_one_interval(a) && is_one_interval(b)) {
    const Interval x = interval_of(mesh, size, a, coord);
    const Interval y = interval_of(mesh, size, b, coord);
    return std::max<std::int64_t>(0, std::min(x.stop, y.stop) - std::max(x.start, y.start));
  }
  std::int64_t count = 0;
  for (const Run& run : intersect(mesh, a, coord, mesh, b, coord, size)) count += run.size;
  return count;
}

std::vector<Interval> intervals_of(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  std::vector<Interval> held{{0, size}};
  for (const Level& level : levels) {
    std::vector<Interval> finer;
    const std::int64_t parts = mesh.size(level.axis);
    finer.reserve(held.size() * static_cast<std::size_t>(parts));
    for (const Interval& piece : held) {
      for (std::int64_t c = 0; level.sizes && c < parts; ++c) {
        const RaggedPart part = level.sizes.part_of(c);
        finer.push_back({piece.start + part.start, piece.start + part.stop});
      }
      if (level.sizes) continue;
      const std::int64_t length = piece.stop - piece.start;
      const std::int64_t chunk = pattern::chunk_of(mesh, level, length);
      for (std::int64_t c = 0; c < parts; ++c) {
        finer.push_back({piece.start + std::min(length, c * chunk),
                         piece.start + std::min(length, (c + 1) * chunk)});
      }
    }
    held = std::move(finer);
  }
  return held;
}

std::vector<std::int64_t> owners_of(const std::vector<Interval>& a, const std::vector<Interval>& b,
                                    Refines refines) {
  std::vector<std::int64_t> starts;
  starts.reserve(b.size());
  for (const Interval& piece : b) {
    if (piece.start < piece.stop) starts.push_back(piece.start);
  }
  std::vector<std::int64_t> owners;
  owners.reserve(a.size());
  auto next = starts.begin();  // of the pieces that begin behind where `held` does
  for (const Interval& held : a) {
    if (held.start == held.stop) {
      owners.push_back(0);
    } else if (refines == Refines::kYes) {
      owners.push_back(1);
    } else {
      while (next != starts.end() && *next <= held.start) ++next;
      const auto first = next;
      while (next != starts.end() && *next < held.stop) ++next;
      owners.push_back(next - first + 1);
    }
  }
  return owners;
}

std::vector<Interval> in_both(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> all;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Interval both{std::max(a[i].start, b[j].start), std::min(a[i].stop, b[j].stop)};
    const bool continues = !all.empty() && all.back().stop == both.start;
    if (both.start < both.stop && continues) all.back().stop = both.stop;
    if (both.start < both.stop && !continues) all.push_back(both);
    ++(a[i].stop <= b[j].stop ? i : j);
  }
  return all;
}

DimPieces::DimPieces(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  if (is_one_interval(levels)) {
    // They follow one another.
    for (const Interval& each : intervals_of(mesh, size, levels)) {
      if (each.start < each.stop) starts_.push_back(each.start);
    }
    if (!starts_.empty()) starts_.push_back(size);
    return;
  }
  Coord coord(static_cast<std::size_t>(mesh.ndim()), 0);
  for (bool more = true; more;) {
    std::vector<Interval> piece = local_intervals(mesh, size, levels, coord);
    if (!piece.empty()) pieces_.push_back(std::move(piece));
    more = false;
    for (auto level = levels.rbegin(); level != levels.rend() && !more; ++level) {
      if (level->kind != Level::Kind::kAxis) continue;
      std::int64_t& at = coord[static_cast<std::size_t>(level->axis)];
      more = ++at < mesh.size(level->axis);
      if (!more) at = 0;
    }
  }
}

std::int64_t DimPieces::first_from(std::int64_t index) const {
  return std::lower_bound(starts_.begin(), starts_.end(), index) - starts_.begin();
}

std::int64_t DimPieces::num_meeting(const std::vector<Interval>& held) const {
  std::int64_t met = 0, counted = 0;  // pieces before `counted` are
  for (const Interval& each : held) {
    if (starts_.empty()) break;
    const std::int64_t first = std::max(counted, first_from(each.start + 1) - 1);
    counted = first_from(each.stop);
    met += std::max<std::int64_t>(0, counted - first);
  }
  return met + std::count_if(pieces_.begin(), pieces_.end(),
                             [&](const auto& piece) { return !in_both(piece, held).empty(); });
}

std::int64_t DimPieces::num_inside(const std::vector<Interval>& held) const {
  std::int64_t inside = 0;
  for (const Interval& each : held) {
    if (starts_.empty()) break;
    // Pieces from the first that starts here up to the last that ends here.
    inside += std::max<std::int64_t>(0, first_from(each.stop + 1) - 1 - first_from(each.start));
  }
  return inside + std::count_if(pieces_.begin(), pieces_.end(),
                                [&](const auto& piece) { return in_both(piece, held) == piece; });
}

MetCounts::MetCounts(const Mesh& mesh, std::int64_t size, Overlap::Of of, const DimLists& lists)
    : mesh_(mesh),
      size_(size),
      of_(of),
      pieces_(mesh, size, of == Overlap::Of::kElements ? Levels() : *lists.b) {
  const bool elements = of == Overlap::Of::kElements;
  for (const Levels* levels : {lists.a, lists.also, elements ? lists.b : nullptr}) {
    if (levels != nullptr) held_.push_back({levels, {}});
  }
  one_interval_ =
      std::ranges::all_of(held_, [](const Held& held) { return is_one_interval(*held.levels); });
  if (!one_interval_) return;
  for (Held& held : held_) held.of_coords = intervals_of(mesh, size, *held.levels);
}

std::int64_t MetCounts::at(const Coord& coord) {
  std::vector<Interval> several;
  if (one_interval_) {
    Interval both{0, size_};
    for (const Held& held : held_) {
      const Interval own = one_on(held, coord);
      both = {std::max(both.start, own.start), std::min(both.stop, own.stop)};
    }
    one_.clear();
    if (both.start < both.stop) one_.push_back(both);
  } else {
    several = on(held_[0], coord);
    for (std::size_t i = 1; i < held_.size(); ++i) several = in_both(several, on(held_[i], coord));
  }
  const std::vector<Interval>& met = one_interval_ ? one_ : several;
  if (of_ == Overlap::Of::kOwners) return pieces_.num_meeting(met);
  if (of_ == Overlap::Of::kInside) return pieces_.num_inside(met);
  std::int64_t count = 0;
  for (const Interval& each : met) count += each.stop - each.start;
  return count;
}

std::vector<Interval> MetCounts::on(const Held& held, const Coord& coord) const {
  return local_intervals(mesh_, size_, *held.levels, coord);
}

Interval MetCounts::one_on(const Held& held, const Coord& coord) const {
  std::size_t place = 0;
  for (const Level& level : *held.levels) {
    place = place * static_cast<std::size_t>(mesh_.size(level.axis)) +
            static_cast<std::size_t>(coord[static_cast<std::size_t>(level.axis)]);
  }
  return held.of_coords[place];
}

}  // namespace tessera
