#include "strategies/rules/cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = RowEntry::Kind;

bool is_shard(const RowEntry& entry) { return entry.kind == Kind::kShard; }
bool is_partial(const RowEntry& entry) { return entry.kind == Kind::kPartial; }

bool same_levels(const LevelList& a, const LevelList& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

/// Axes that cut a dim alike on both sides: those in the common prefix of the two level lists.
AxisMask matched_axes(const TensorCut& src, const TargetCut& dst) {
  AxisMask matched = 0;
  for (std::size_t d = 0; d < src.levels.size(); ++d) {
    const LevelList& a = src.levels[d];
    const LevelList& b = *dst.levels[d];
    for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) {
      if (a[i].kind == Level::Kind::kAxis) matched |= AxisMask{1} << a[i].axis;
    }
  }
  return matched;
}

/// One side of an axis that cuts source and target otherwise.
struct AxisCut {
  int dim = -1;
  const RaggedSizes* sizes = nullptr;  ///< null: plain

  /// Places in [0, 1) of what `coord` of `num_coords` holds of its dim.
  std::array<double, 2> share(std::int64_t coord, std::int64_t num_coords,
                              std::int64_t size) const {
    if (sizes != nullptr) {
      const RaggedPart part = sizes->part_of(coord);
      return {double(part.start), double(part.stop)};
    }
    const std::int64_t chunk = size / num_coords + (size % num_coords != 0 ? 1 : 0);
    return {double(std::min(size, coord * chunk)), double(std::min(size, (coord + 1) * chunk))};
  }
};

template <class LevelsOfDim>
AxisCut axis_cut(int axis, const RowEntry& entry, const LevelsOfDim& levels_of) {
  AxisCut cut{.dim = entry.dim};
  for (const Level& level : levels_of(static_cast<std::size_t>(entry.dim))) {
    if (level.kind == Level::Kind::kAxis && level.axis == axis && level.sizes) {
      cut.sizes = &level.sizes;
    }
  }
  return cut;
}

/// The part of a dim, or of two, that coords of one axis hold under both cuts, of which one at
/// least states its sizes. Cost: O(coords).
double common_share(const AxisCut& src, const AxisCut& dst, std::int64_t num_coords) {
  const RaggedSizes& stated = src.sizes != nullptr ? *src.sizes : *dst.sizes;
  const std::int64_t size = stated.total();
  if (size == 0) return 1.0;
  double common = 0.0;
  for (std::int64_t c = 0; c < num_coords; ++c) {
    if (src.dim == dst.dim) {
      const auto [a, b] = src.share(c, num_coords, size);
      const auto [x, y] = dst.share(c, num_coords, size);
      common += std::max(0.0, std::min(b, y) - std::max(a, x)) / double(size);
      continue;
    }
    const auto part = [&](const AxisCut& cut) {
      if (cut.sizes == nullptr || cut.sizes->total() == 0) return 1.0 / double(num_coords);
      const auto [a, b] = cut.share(c, num_coords, size);
      return (b - a) / double(cut.sizes->total());
    };
    common += part(src) * part(dst);
  }
  return common;
}

/// Likewise on an axis that cuts source and target.
double common_share(int axis, std::int64_t num_coords, const TensorCut& src, const TargetCut& dst) {
  const auto a = static_cast<std::size_t>(axis);
  const AxisCut from = axis_cut(axis, src.entries[a],
                                [&](std::size_t d) -> const LevelList& { return src.levels[d]; });
  const AxisCut to = axis_cut(axis, dst.entries[a],
                              [&](std::size_t d) -> const LevelList& { return *dst.levels[d]; });
  if (from.sizes == nullptr && to.sizes == nullptr) return 1.0 / double(num_coords);
  return common_share(from, to, num_coords);
}

bool states_sizes(const TargetCut& cut) {
  return std::any_of(cut.levels.begin(), cut.levels.end(), [](const LevelList* levels) {
    return std::any_of(levels->begin(), levels->end(),
                       [](const Level& level) { return static_cast<bool>(level.sizes); });
  });
}

}  // namespace

TensorCut cut_of(const Spec& spec, std::span<const int> axis_of, std::size_t num_axes) {
  TensorCut cut;
  cut.entries.resize(num_axes);
  cut.levels.resize(spec.global_shape().size());
  cut.axes.resize(spec.global_shape().size(), 0);
  const Layout& layout = spec.layout();
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    for (Level level : layout.dims[d]) {
      if (level.kind == Level::Kind::kAxis) {
        level.axis = axis_of[static_cast<std::size_t>(level.axis)];
        if (level.axis < 0) continue;
        cut.entries[static_cast<std::size_t>(level.axis)] = {Kind::kShard, static_cast<int>(d)};
        cut.axes[d] |= AxisMask{1} << level.axis;
        cut.ragged |= static_cast<bool>(level.sizes);
      }
      cut.levels[d].push_back(level);
    }
  }
  for (std::size_t a = 0; a < layout.partial.size(); ++a) {
    if (!layout.partial[a] || axis_of[a] < 0) continue;
    cut.entries[static_cast<std::size_t>(axis_of[a])] = {Kind::kPartial, -1, *layout.partial[a]};
  }
  return cut;
}

bool stays(const TensorCut& src, const TargetCut& dst) noexcept {
  if (!std::equal(src.entries.begin(), src.entries.end(), dst.entries.begin())) return false;
  for (std::size_t d = 0; d < src.levels.size(); ++d) {
    if (!same_levels(src.levels[d], *dst.levels[d])) return false;
  }
  return true;
}

// An element goes to each rank that needs it and lacks it. A rank that needs it has it, if it
// agrees with its owner on the axes that cut both source and target: always where these cut the
// same dim in the same place, in 1 of p cases elsewhere, and where sizes are stated as often as
// parts meet. Of a reduced element, all summands but one
// go to where they meet, which is a rank that needs the sum, and the sum goes from there to all
// others.
double moved_elements(std::span<const std::int64_t> axis_sizes, double num_elements,
                      const TensorCut& src, const TargetCut& dst) {
  const AxisMask matched = matched_axes(src, dst);
  double summands = 1.0, needed = 1.0;  // of an element: ranks
  double kept = 1.0;                    // parts of a Partial that stay apart
  double at_hand = 1.0;                 // how often one of the ranks that need it has a part
  double replicas = 1.0;                // ranks that have it and need it
  for (std::size_t a = 0; a < axis_sizes.size(); ++a) {
    const RowEntry& s = src.entries[a];
    const RowEntry& t = dst.entries[a];
    const auto p = static_cast<double>(axis_sizes[a]);
    const bool one_holds = is_shard(t) || (is_partial(t) && !divides(t.op));
    if (is_partial(s) && is_partial(t)) {
      if (!(s == t)) return std::numeric_limits<double>::infinity();
      kept *= p;
    } else if (is_partial(s)) {
      summands *= p;
      if (!is_shard(t)) needed *= p;
    } else if (is_shard(s)) {
      if (!is_shard(t)) needed *= p;
      if (is_shard(t) && (matched >> a & 1) == 0) {
        const bool stated = src.ragged || states_sizes(dst);
        at_hand *= stated ? common_share(static_cast<int>(a), axis_sizes[a], src, dst) : 1.0 / p;
      }
    } else if (!one_holds) {
      replicas *= p;
    }
  }
  const double received =
      summands > 1.0 ? summands - 1.0 + needed * replicas - at_hand : (needed - at_hand) * replicas;
  return num_elements * kept * received;
}

std::int64_t estimate_moved_bytes(const Spec& src, const Spec& dst) {
  if (src.mesh().ndim() == 0 || src == dst) return 0;
  absl::InlinedVector<int, 6> axis_of;
  absl::InlinedVector<std::int64_t, 6> sizes;
  for (const MeshAxis& axis : src.mesh().axes()) {
    axis_of.push_back(axis.size == 1 ? -1 : static_cast<int>(sizes.size()));
    if (axis.size > 1) sizes.push_back(axis.size);
  }
  if (dst.mesh().ndim() != src.mesh().ndim()) return src.global_bytes() * dst.mesh().num_ranks();
  const TensorCut from = cut_of(src, axis_of, sizes.size());
  const TensorCut to = cut_of(dst, axis_of, sizes.size());
  absl::InlinedVector<const LevelList*, 6> levels;
  for (const LevelList& list : to.levels) levels.push_back(&list);
  const double elements =
      moved_elements(sizes, static_cast<double>(num_elements(src.global_shape())), from,
                     {to.entries, {levels.data(), levels.size()}});
  if (std::isinf(elements)) return std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::llround(elements * double(size_of(src.dtype()))));
}

}  // namespace tessera
