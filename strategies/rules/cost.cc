#include "strategies/rules/cost.h"

#include <algorithm>
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
// same dim in the same place, in 1 of p cases elsewhere. Of a reduced element, all summands but one
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
      if (is_shard(t) && (matched >> a & 1) == 0) at_hand /= p;
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
