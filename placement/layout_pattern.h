// placement/layout_pattern.h: the arithmetic of level lists that the sources of layout.h share.
// A level cuts a piece of some length into chunks; only the last chunk is short, so one length says
// all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "placement/layout.h"

namespace tessera::pattern {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}
static_assert(ceil_div(7, 3) == 3 && ceil_div(6, 3) == 2 && ceil_div(0, 3) == 0);

/// Length of the chunks that `level` makes of a piece of `length` (at most `length`; 0 of an empty
/// one). Requires a cut that is not ragged.
inline std::int64_t chunk_of(const Mesh& mesh, const Level& level, std::int64_t length) {
  if (length <= 0) return 0;
  if (level.kind == Level::Kind::kRun) return std::min(level.count, length);
  const std::int64_t parts = level.kind == Level::Kind::kAxis ? mesh.size(level.axis) : level.count;
  const std::int64_t units = ceil_div(length, level.grain);
  const std::int64_t units_per_chunk = ceil_div(units, parts);
  return units_per_chunk >= units ? length : units_per_chunk * level.grain;
}

/// Length of the longest chunk, of ragged cuts too.
inline std::int64_t longest_chunk_of(const Mesh& mesh, const Level& level, std::int64_t length) {
  if (!level.sizes) return chunk_of(mesh, level, length);
  const RaggedPart most = level.sizes.part_of(level.sizes.fullest());
  return std::min(length, most.stop - most.start);
}
/// True if an axis cuts, anywhere, into chunks of one length but for the last.
inline bool is_plain_axis(const Level& level) {
  return level.kind == Level::Kind::kAxis && level.grain == 1 && !level.sizes;
}
/// Length of the chunks, one for each coord in order, where all are of one length; else 0.
std::int64_t equal_chunk(const Mesh& mesh, std::int64_t size, const Levels& levels);
/// True if a coord owns the whole dim.
inline bool owns(const Level& level) { return level.sizes && level.sizes.owner().has_value(); }

/// What one coord holds of a dim: a walk down the levels that never looks at single elements.
/// Cost: O(levels) where the cuts leave no short tails, else one more branch for each run or block.
class Pattern {
 public:
  Pattern(const Mesh& mesh, const Levels& levels, const Coord& coord)
      : mesh_(mesh), levels_(levels), coord_(coord) {}

  /// Elements held of a piece of `length` that levels from `level` on cut.
  std::int64_t held(std::int64_t length, std::size_t level = 0) const;
  /// Elements held below `index` of a dim of `size`.
  std::int64_t held_below(std::int64_t size, std::int64_t index) const;
  std::int64_t to_global(std::int64_t size, std::int64_t local_index) const;
  std::int64_t to_local(std::int64_t size, std::int64_t global_index) const;
  /// Appends the intervals held inside `window`, ascending and merged.
  void intervals(std::int64_t size, Interval window, std::vector<Interval>& out) const;

 private:
  Interval kept(const Level& level, std::int64_t length) const;
  void intervals_of_piece(Interval piece, std::size_t level, Interval window,
                          std::vector<Interval>& out) const;

  const Mesh& mesh_;
  const Levels& levels_;
  const Coord& coord_;
};

/// The coords that hold an index, and how far to the right they do.
struct Stretch {
  Coord coord;  ///< 0 on axes that are not in the levels
  std::int64_t stop = 0;
};
Stretch stretch_at(const Mesh& mesh, std::int64_t size, const Levels& levels, std::int64_t index);

/// True if an axis from `level` on cuts a piece of `length`.
bool cuts_piece(const Mesh& mesh, const Levels& levels, std::size_t level, std::int64_t length);

/// Lengths of the pieces that exist at some point of a level list: distinct, ascending, not 0.
using Lengths = std::vector<std::int64_t>;
Lengths lengths_after(const Mesh& mesh, const Level& level, const Lengths& lengths);
inline Lengths lengths_of(std::int64_t size) { return size > 0 ? Lengths{size} : Lengths{}; }
/// True if no piece is cut.
bool keeps_whole(const Mesh& mesh, const Level& level, const Lengths& lengths);
bool same_chunks(const Mesh& mesh, const Level& a, const Level& b, const Lengths& lengths);
/// `level` with the smallest grain that makes the same chunks.
Level with_smallest_grain(const Mesh& mesh, Level level, const Lengths& lengths);

}  // namespace tessera::pattern
