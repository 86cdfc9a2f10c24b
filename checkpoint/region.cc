#include "checkpoint/region.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"

namespace tessera {
namespace {

// Cuts of meshes nest a few levels deep; a hostile file could nest them one inside the other.
constexpr int kMaxNesting = 64;
constexpr std::size_t kMaxPairwise = 4096;

std::int64_t stop_of(const Region& region, std::size_t dim) {
  return region.offset[dim] + region.size[dim];
}

using Regions = std::vector<const Region*>;

bool overlap(const Region& a, const Region& b) {
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    if (stop_of(a, d) <= b.offset[d] || stop_of(b, d) <= a.offset[d]) return false;
  }
  return true;
}

Region common_part(const Region& a, const Region& b) {
  Region out;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    out.offset.push_back(std::max(a.offset[d], b.offset[d]));
    out.size.push_back(std::min(stop_of(a, d), stop_of(b, d)) - out.offset[d]);
  }
  return out;
}

Status covered_twice(const Region& a, const Region& b) {
  return invalid_argument(to_string(common_part(a, b)) + " is covered twice");
}

/// The part of `box` before or after `part` in the first dim where they differ.
Status not_covered(Region box, const Region& part) {
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    if (part.offset[d] > box.offset[d]) {
      box.size[d] = part.offset[d] - box.offset[d];
      break;
    }
    if (stop_of(part, d) < stop_of(box, d)) {
      const std::int64_t stop = stop_of(box, d);
      box.offset[d] = stop_of(part, d);
      box.size[d] = stop - box.offset[d];
      break;
    }
  }
  return invalid_argument(to_string(box) + " is covered by nothing");
}

/// Groups of regions that no plane across `dim` cuts, ascending.
std::vector<Regions> split_along(Regions regions, std::size_t dim) {
  std::sort(regions.begin(), regions.end(),
            [&](const Region* a, const Region* b) { return a->offset[dim] < b->offset[dim]; });
  std::vector<Regions> groups;
  std::int64_t stop = 0;
  for (const Region* region : regions) {
    if (groups.empty() || region->offset[dim] >= stop) groups.emplace_back();
    groups.back().push_back(region);
    stop = std::max(stop, stop_of(*region, dim));
  }
  return groups;
}

/// Regions that no plane separates: one is covered twice, or they interlock, which no mesh does.
Status check_interlocked(const Regions& regions) {
  if (regions.size() <= kMaxPairwise) {
    for (std::size_t i = 0; i < regions.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (overlap(*regions[i], *regions[j])) return covered_twice(*regions[j], *regions[i]);
      }
    }
  }
  return invalid_argument(absl::StrFormat("%s and %d others interlock; no mesh cuts so",
                                          to_string(*regions[0]), regions.size() - 1));
}

Status check_box(const Region& box, const Regions& regions, int depth) {
  if (regions.size() == 1) {
    return *regions[0] == box ? absl::OkStatus() : not_covered(box, *regions[0]);
  }
  if (depth == kMaxNesting) return check_interlocked(regions);
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    const std::vector<Regions> groups = split_along(regions, d);
    if (groups.size() == 1) continue;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      Region part = box;
      const auto first = [&](const Regions& group) { return group[0]->offset[d]; };
      if (g > 0) part.offset[d] = first(groups[g]);
      part.size[d] =
          (g + 1 < groups.size() ? first(groups[g + 1]) : stop_of(box, d)) - part.offset[d];
      TSR_RETURN_IF_ERROR(check_box(part, groups[g], depth + 1));
    }
    return absl::OkStatus();
  }
  return check_interlocked(regions);
}

}  // namespace

std::string to_string(const Region& region) {
  std::string text = "[";
  for (std::size_t d = 0; d < region.size.size(); ++d) {
    text += absl::StrFormat("%s%d:%d", d == 0 ? "" : ", ", region.offset[d], stop_of(region, d));
  }
  return text + "]";
}

Region whole_region(ShapeView shape) {
  return {.offset = Shape(shape.size(), 0), .size = to_shape(shape)};
}

Selection selection_of(const Region& region) {
  Selection selection;
  for (std::size_t d = 0; d < region.size.size(); ++d) {
    selection.push_back({{region.offset[d], stop_of(region, d)}});
  }
  return selection;
}

Selection selection_of(const Spec& spec, const Coord& coord) {
  Selection selection;
  for (std::size_t d = 0; d < spec.global_shape().size(); ++d) {
    selection.push_back(
        local_intervals(spec.mesh(), spec.global_shape()[d], spec.layout().dims[d], coord));
  }
  return selection;
}

Shape shape_of(const Selection& selection) {
  Shape shape;
  for (const std::vector<Interval>& intervals : selection) {
    std::int64_t size = 0;
    for (const Interval& interval : intervals) size += interval.stop - interval.start;
    shape.push_back(size);
  }
  return shape;
}

std::vector<Region> regions_of(const Selection& selection) {
  std::vector<Region> regions(1);
  for (const std::vector<Interval>& intervals : selection) {
    std::vector<Region> longer;
    for (const Region& region : regions) {
      for (const Interval& interval : intervals) {
        if (interval.stop == interval.start) continue;
        Region next = region;
        next.offset.push_back(interval.start);
        next.size.push_back(interval.stop - interval.start);
        longer.push_back(std::move(next));
      }
    }
    regions = std::move(longer);
  }
  return regions;
}

bool owns_part(const Spec& spec, const Coord& coord, std::string_view name) {
  std::int64_t replica = 0, replicas = 1;
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    if (spec.layout().dim_of_axis(axis) >= 0) continue;
    replica = replica * spec.mesh().size(axis) + coord[static_cast<std::size_t>(axis)];
    replicas *= spec.mesh().size(axis);
  }
  return static_cast<std::uint64_t>(replica) ==
         hash_of(name) % static_cast<std::uint64_t>(replicas);
}

Status check_coverage(ShapeView shape, std::span<const Region> regions) {
  const Region whole = whole_region(shape);
  Regions pointers;
  for (const Region& region : regions) {
    if (region.size.size() != shape.size() || region.offset.size() != shape.size()) {
      return invalid_argument(
          absl::StrFormat("%s has not %d dims", to_string(region), shape.size()));
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (region.offset[d] < 0 || region.size[d] < 1 || region.offset[d] > shape[d] ||
          region.size[d] > shape[d] - region.offset[d]) {
        return invalid_argument(absl::StrFormat("%s is empty or not inside of %s",
                                                to_string(region), to_string(shape)));
      }
    }
    pointers.push_back(&region);
  }
  if (num_elements(shape) == 0) return absl::OkStatus();
  if (pointers.empty()) return invalid_argument(to_string(whole) + " is covered by nothing");
  return check_box(whole, pointers, 0);
}

}  // namespace tessera
