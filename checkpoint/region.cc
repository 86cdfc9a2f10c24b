#include "checkpoint/region.h"

#include "absl/strings/str_format.h"
#include "checkpoint/chunk_hash.h"

namespace tessera {
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

}  // namespace tessera
