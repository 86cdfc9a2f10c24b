// placement/layout.h: which indices of each dim a rank holds, exactly, as one pure value.
// A dim's levels cut [0, n) piece by piece, major to minor; an axis occurs once, in a dim or as
// Partial.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "placement/api.h"
#include "placement/mesh.h"
#include "placement/placement.h"
#include "placement/shape.h"

namespace tessera TSR_API {

/// One cut of each current piece of a dim.
struct Level {
  enum class Kind : std::uint8_t {
    kAxis,  ///< into size(axis) chunks of ceil(ceil(len/grain)/size)·grain, or as `sizes` say; a
            ///< rank keeps its coord's
    kRun,   ///< into runs of `count` elements, all kept
    kBlock  ///< into `count` chunks of ceil(ceil(len/grain)/count)·grain, all kept
  };
  Kind kind = Kind::kAxis;
  int axis = -1;           ///< kAxis only
  std::int64_t count = 0;  ///< kRun: elements of a run; kBlock: number of chunks
  std::int64_t grain = 1;  ///< kAxis, kBlock: cuts fall on multiples of it inside a piece
  RaggedSizes sizes = {};  ///< kAxis: the cut is ragged where there are any
  bool operator==(const Level&) const = default;

  static Level of_axis(int axis, std::int64_t grain = 1) { return {Kind::kAxis, axis, 0, grain}; }
  static Level of_ragged(int axis, RaggedSizes sizes) {
    return {Kind::kAxis, axis, 0, 1, std::move(sizes)};
  }
  static Level of_run(std::int64_t count) { return {Kind::kRun, -1, count, 1}; }
  static Level of_block(std::int64_t count, std::int64_t grain = 1) {
    return {Kind::kBlock, -1, count, grain};
  }
};
using Levels = std::vector<Level>;

/// Levels per dim, and a reduction per axis on which the tensor is Partial.
struct Layout {
  std::vector<Levels> dims;
  std::vector<std::optional<ReduceOp>> partial;  ///< one per mesh axis
  bool operator==(const Layout&) const = default;

  bool is_replicated() const;
  /// The dim that `axis` cuts, or -1.
  int dim_of_axis(int axis) const;
  /// True if some cut states its sizes.
  bool is_ragged() const;
};

/// Indices [start, stop) of one dim.
struct Interval {
  std::int64_t start = 0;
  std::int64_t stop = 0;
  bool operator==(const Interval&) const = default;
};

/// The layout of a tensor of `global_shape` under one placement per axis, in canonical form.
/// Errors: InvalidArgument for a wrong number of placements, a dim out of range, or a split factor
/// that does not decode (the text names the placements).
StatusOr<Layout> decode(const Mesh& mesh, ShapeView global_shape,
                        std::span<const Placement> placements);
/// The inverse. Errors: InvalidArgument where a level list has no placement form (grain, run,
/// blocks that do not merge).
StatusOr<Placements> encode(const Mesh& mesh, ShapeView global_shape, const Layout& layout);

/// Checks a layout that a user wrote: dims, axes, counts, an axis used twice. Errors:
/// InvalidArgument.
Status validate(const Mesh& mesh, ShapeView global_shape, const Layout& layout);
/// Canonical form for these sizes: equal index sets of one axis order give equal text, for lists of
/// axes, grains and blocks that merge. Axes of size 1 go, in dims and as Partial; axes that leave
/// all to coord 0 stand last, behind a block of single elements ([tp%2] of 2 elements is [2*, tp]).
/// Axes of which one coord owns the whole dim stand first; stated sizes that are those of a plain
/// cut are left out.
Layout canonical(const Mesh& mesh, ShapeView global_shape, Layout layout);
Levels canonical_levels(const Mesh& mesh, std::int64_t size, Levels levels);

/// Elements of a dim of `size` held by `coord`. Cost: O(levels).
std::int64_t local_size(const Mesh& mesh, std::int64_t size, const Levels& levels,
                        const Coord& coord);
Shape local_shape(const Mesh& mesh, ShapeView global_shape, const Layout& layout,
                  const Coord& coord);
/// A coord that holds most: 0 on every axis but those of ragged cuts.
Coord fullest_coord(const Mesh& mesh, const Layout& layout);
/// The sorted, merged intervals held by `coord`. Cost: one entry per interval.
std::vector<Interval> local_intervals(const Mesh& mesh, std::int64_t size, const Levels& levels,
                                      const Coord& coord);
/// Global index of local element `local_index`. Requires 0 <= local_index < local_size. Cost:
/// O(levels).
std::int64_t local_to_global(const Mesh& mesh, std::int64_t size, const Levels& levels,
                             const Coord& coord, std::int64_t local_index);
/// Local index of global element `global_index`, or -1 where `coord` does not hold it. Cost:
/// O(levels).
std::int64_t global_to_local(const Mesh& mesh, std::int64_t size, const Levels& levels,
                             const Coord& coord, std::int64_t global_index);
/// Coords (on the axes of `levels`; 0 elsewhere) of the piece that holds `global_index`. Cost:
/// O(levels).
Coord owner_of(const Mesh& mesh, std::int64_t size, const Levels& levels,
               std::int64_t global_index);
/// True if both level lists give every coord the same indices (compares sets, no modular shortcut).
bool same_index_sets(const Mesh& mesh, std::int64_t size, const Levels& a, const Levels& b);

/// A stretch of indices that two sides hold contiguously.
struct Run {
  std::int64_t src = 0;  ///< first local index on the source
  std::int64_t dst = 0;  ///< first local index on the target
  std::int64_t size = 0;
  bool operator==(const Run&) const = default;
};
/// What `src_coord` under `src` and `dst_coord` under `dst` both hold of a dim, ascending, merged.
/// O(1) where one cut refines the other, else a merge over runs.
std::vector<Run> intersect(const Mesh& src_mesh, const Levels& src, const Coord& src_coord,
                           const Mesh& dst_mesh, const Levels& dst, const Coord& dst_coord,
                           std::int64_t size);

/// Levels of the merged dim of (n_major, n_minor), major first. Errors: FailedPrecondition naming
/// the redistribution needed, where an axis would cut the minor dim in a form that no level list
/// says.
StatusOr<Levels> flatten_levels(const Mesh& mesh, const Levels& major, std::int64_t n_major,
                                const Levels& minor, std::int64_t n_minor);
/// The inverse: levels of the two dims that a dim of n_major · n_minor splits into. Errors:
/// FailedPrecondition unless every cut falls on a row border or inside one level of the minor dim.
StatusOr<std::pair<Levels, Levels>> unflatten_levels(const Mesh& mesh, const Levels& levels,
                                                     std::int64_t n_major, std::int64_t n_minor);

/// "[dp, 2*, tp%3, /4]", "[dp(3,0,5)]" of a ragged cut; axes by name, or by position where the mesh
/// is not named.
std::string to_string(const Mesh& mesh, const Levels& levels);
/// Reads one level string of the table in docs/concepts.md. Errors: InvalidArgument with the
/// column.
StatusOr<Level> parse_level(const Mesh& mesh, std::string_view text);
std::string level_to_string(const Mesh& mesh, const Level& level);

}  // namespace tessera
