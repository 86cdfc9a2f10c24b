// checkpoint/region.h: boxes of a tensor's global indices: what a rank's local part is made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/layout.h"
#include "placement/shape.h"
#include "placement/spec.h"

namespace tessera TSR_API {

/// Indices [offset, offset + size) of every dim.
struct Region {
  Shape offset;
  Shape size;
  bool operator==(const Region&) const = default;
};
/// The index behind the last one of `dim`.
inline std::int64_t stop_of(const Region& region, std::size_t dim) {
  return region.offset[dim] + region.size[dim];
}
/// "[0:4, 8:16]"
std::string to_string(const Region& region);
Region whole_region(ShapeView shape);

/// Intervals of every dim, ascending; the selection is their product. What a rank holds of a
/// tensor, or a region of it.
using Selection = std::vector<std::vector<Interval>>;
Selection selection_of(const Region& region);
/// What `coord` holds of a tensor without Partial axes.
Selection selection_of(const Spec& spec, const Coord& coord);
Shape shape_of(const Selection& selection);

/// The regions that make up a selection, row-major. Empty for a selection of no elements.
std::vector<Region> regions_of(const Selection& selection);

/// Of the ranks that hold the same part of tensor `name`, exactly one owns it. Which one depends on
/// the name, so that replicas share the work.
bool owns_part(const Spec& spec, const Coord& coord, std::string_view name);

}  // namespace tessera
