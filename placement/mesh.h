// placement/mesh.h: an n-d array of ranks. A mesh has axes; a rank has a coord on each of them.
// A regular mesh is a base rank and a stride per axis, not a table; views compare by value.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/shape.h"
#include "placement/status.h"

namespace tessera TSR_API {

struct MeshAxis {
  std::string name;  ///< empty where the mesh is not named
  std::int64_t size = 1;
  std::int64_t stride = 1;  ///< rank distance of neighbours on this axis
  bool operator==(const MeshAxis&) const = default;
};

/// Coordinates of a rank, one per axis.
using Coord = Shape;

/// A value: cheap to copy for small meshes, compared axis by axis. The mesh of no axes has one
/// rank, and a tensor on it is a plain tensor.
class Mesh {
 public:
  Mesh() = default;
  /// Ranks first_rank … first_rank + product − 1, row-major (the last axis holds adjacent ranks).
  /// Errors: InvalidArgument for a size < 1, a bad or repeated name, names not as many as axes (or
  /// none); OutOfRange where the product overflows.
  static StatusOr<Mesh> make(ShapeView shape, std::vector<std::string> names = {},
                             std::int64_t first_rank = 0);

  int ndim() const noexcept { return static_cast<int>(axes_.size()); }
  std::int64_t size(int axis) const { return axes_[static_cast<std::size_t>(axis)].size; }
  const MeshAxis& axis(int axis) const { return axes_[static_cast<std::size_t>(axis)]; }
  const std::vector<MeshAxis>& axes() const noexcept { return axes_; }
  Shape shape() const;
  std::int64_t num_ranks() const noexcept;
  std::int64_t first_rank() const noexcept { return first_rank_; }

  /// The axis called `name`, or at position `name` where that is an integer (negative from the
  /// end). Errors: InvalidArgument naming the axes that exist.
  StatusOr<int> find_axis(std::string_view name) const;
  /// The axis' name, or its position as text where it has none.
  std::string axis_label(int axis) const;
  /// Those of several axes, "dp,tp".
  std::string axis_labels(std::span<const int> axes) const;

  std::int64_t rank_of(const Coord& coord) const;
  /// All ranks, row-major.
  std::vector<std::int64_t> ranks() const;
  /// nullopt for a rank outside the mesh.
  std::optional<Coord> coord_of(std::int64_t rank) const;
  /// Ranks that share every coord of `rank` but the one on `axis`, by that coord.
  std::vector<std::int64_t> group_along(int axis, std::int64_t rank) const;

  /// The axes listed (in that order), through rank `rank`. Errors: InvalidArgument for a repeated
  /// or unknown axis; OutOfRange for a rank outside.
  StatusOr<Mesh> sub_mesh(std::span<const int> axes, std::int64_t rank) const;
  /// Adjacent axes [first, first + count) as one. Errors: where their strides do not nest.
  StatusOr<Mesh> flatten(int first, int count, std::string name = {}) const;
  /// The same ranks in the same order as another array. Errors: InvalidArgument unless the products
  /// agree and this mesh's ranks are contiguous row-major.
  StatusOr<Mesh> refactor(ShapeView shape, std::vector<std::string> names = {}) const;
  /// Without the axes of size 1; on them all placements mean the same.
  Mesh without_unit_axes() const;

  /// "{dp: 2, tp: 2}", or "{2, 2}" unnamed.
  std::string to_string() const;
  bool operator==(const Mesh&) const = default;

 private:
  std::int64_t first_rank_ = 0;
  std::vector<MeshAxis> axes_;
};

}  // namespace tessera
