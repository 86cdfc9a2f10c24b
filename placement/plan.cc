#include "placement/plan.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using Kind = PlanStep::Kind;

/// Below this a Partial tensor is reduced straight into replicas: fewer messages weigh more than
/// bytes.
constexpr std::int64_t kSmallBytes = 16 * 1024;
/// Packed messages are cut into chunks of this size at least.
constexpr std::int64_t kLeastChunkBytes = 1024;

bool is_linear(ReduceOp op) { return op == ReduceOp::kSum || op == ReduceOp::kAvg; }
bool commute(ReduceOp a, ReduceOp b) { return a == b || (is_linear(a) && is_linear(b)); }

bool has_axis(const Levels& levels, int axis) {
  return std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
    return level.kind == Level::Kind::kAxis && level.axis == axis;
  });
}

std::size_t common_prefix(const Levels& a, const Levels& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(in_a - a.begin());
}

/// True if every coord under `inner` holds only what it holds under `outer`.
bool holds_within(const Mesh& mesh, std::int64_t size, const Levels& inner, const Levels& outer) {
  if (size == 0 || common_prefix(inner, outer) == outer.size()) return true;
  for (const Level& level : outer) {
    if (level.kind == Level::Kind::kAxis && !has_axis(inner, level.axis)) return false;
  }
  for (std::int64_t index = 0; index < size;) {
    const pattern::Stretch in = pattern::stretch_at(mesh, size, inner, index);
    const pattern::Stretch out = pattern::stretch_at(mesh, size, outer, index);
    for (const Level& level : outer) {
      if (level.kind != Level::Kind::kAxis) continue;
      const auto axis = static_cast<std::size_t>(level.axis);
      if (in.coord[axis] != out.coord[axis]) return false;
    }
    index = std::min(in.stop, out.stop);
  }
  return true;
}

class Planner {
 public:
  Planner(const Spec& src, const Spec& dst)
      : mesh_(src.mesh()), dst_(dst), at_(src), num_axes_(static_cast<std::size_t>(mesh_.ndim())) {
    plan_.src = src;
    plan_.dst = dst;
  }

  StatusOr<Plan> run() {
    TSR_RETURN_IF_ERROR(choose_axes());
    while (!reduced_.empty()) reduce_next();
    Layout whole = dst_.layout();
    for (const int axis : filled_) whole.partial[static_cast<std::size_t>(axis)].reset();
    exchange_to(std::move(whole));
    fill();
    return std::move(plan_);
  }

 private:
  const std::optional<ReduceOp>& src_op(int axis) const {
    return plan_.src.layout().partial[static_cast<std::size_t>(axis)];
  }
  const std::optional<ReduceOp>& dst_op(int axis) const {
    return dst_.layout().partial[static_cast<std::size_t>(axis)];
  }

  /// Which axes are reduced and which are filled. A Partial axis that stays must still be reduced,
  /// and filled again, where an axis to its left of another kind is reduced: no plan reorders the
  /// two.
  Status choose_axes() {
    std::optional<ReduceOp>
        leftmost;  // kinds reduced so far, left to right; mixed ones count as one
    bool mixed = false;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      const auto& from = src_op(axis);
      const auto& to = dst_op(axis);
      if (from && to && *from != *to) {
        return unimplemented(
            absl::StrFormat("redistribute: axis %s would go from P(%s) to P(%s), which no "
                            "collective does; go through "
                            "R or S [from %s, to %s]",
                            mesh_.axis_label(axis), std::string(name_of(*from)),
                            std::string(name_of(*to)), plan_.src.to_string(), dst_.to_string()));
      }
      const bool blocked = from && leftmost && (mixed || !commute(*from, *leftmost));
      if (from && (!to || blocked)) {
        mixed = mixed || blocked;
        leftmost = from;
        reduced_.push_back(axis);
        if (to) filled_.push_back(axis);
      } else if (!from && to) {
        filled_.push_back(axis);
      }
    }
    return absl::OkStatus();
  }

  void reduce_next() {
    std::vector<int> group;
    while (!reduced_.empty() && std::all_of(group.begin(), group.end(), [&](int axis) {
      return commute(*src_op(axis), *src_op(reduced_.back()));
    })) {
      group.insert(group.begin(), reduced_.back());
      reduced_.pop_back();
    }
    Layout next = at_.layout();
    for (const int axis : group) next.partial[static_cast<std::size_t>(axis)].reset();
    if (reduced_.empty()) next.dims = dst_.layout().dims;
    // Keep the source's cuts and cut along the axes that fold, so that ranks share the work; a
    // later step gathers.
    if (!is_small(next)) {
      if (reduced_.empty()) keep_source_cuts(next);
      for (const int axis : group) share_along(axis, next);
    }
    const bool scatters = std::any_of(group.begin(), group.end(),
                                      [&](int axis) { return next.dim_of_axis(axis) >= 0; });
    std::vector<int> axes = moved_axes(at_.layout(), next);
    axes.insert(axes.end(), group.begin(), group.end());
    std::sort(axes.begin(), axes.end());
    axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
    push(scatters ? Kind::kReduceScatter : Kind::kAllReduce, std::move(axes), std::move(next));
  }

  std::int64_t largest_local_bytes(const Layout& layout) const {
    const Shape shape =
        tessera::local_shape(mesh_, view_of(dst_.global_shape()), layout, Coord(num_axes_, 0));
    return num_elements(shape) * size_of(dst_.dtype());
  }
  bool is_small(const Layout& layout) const { return largest_local_bytes(layout) < kSmallBytes; }

  /// Cuts along axes of the source that the target leaves alone stay, after those of the target.
  void keep_source_cuts(Layout& next) const {
    for (std::size_t d = 0; d < next.dims.size(); ++d) {
      const Levels& from = at_.layout().dims[d];
      Levels tail(from.begin() + static_cast<std::ptrdiff_t>(common_prefix(from, next.dims[d])),
                  from.end());
      const bool extends = tail.size() + next.dims[d].size() == from.size();
      std::erase_if(tail, [&](const Level& level) {
        return level.kind == Level::Kind::kAxis ? next.dim_of_axis(level.axis) >= 0 : !extends;
      });
      next.dims[d].insert(next.dims[d].end(), tail.begin(), tail.end());
    }
    next = canonical(mesh_, view_of(dst_.global_shape()), std::move(next));
  }

  /// Cuts the dim with most local elements along `axis`, unless the axis cuts a dim already.
  void share_along(int axis, Layout& next) const {
    if (next.dims.empty() || next.dim_of_axis(axis) >= 0) return;
    const Shape shape =
        tessera::local_shape(mesh_, view_of(dst_.global_shape()), next, Coord(num_axes_, 0));
    const auto dim = std::max_element(shape.begin(), shape.end()) - shape.begin();
    next.dims[static_cast<std::size_t>(dim)].push_back(Level::of_axis(axis));
    next = canonical(mesh_, view_of(dst_.global_shape()), std::move(next));
  }

  /// Axes whose coords may differ between a holder under `from` and a reader under `to`.
  std::vector<int> moved_axes(const Layout& from, const Layout& to) const {
    std::vector<int> axes;
    for (std::size_t d = 0; d < from.dims.size(); ++d) {
      const std::int64_t size = dst_.global_shape()[d];
      if (holds_within(mesh_, size, to.dims[d], from.dims[d])) continue;
      const std::size_t first = common_prefix(from.dims[d], to.dims[d]);
      for (std::size_t i = first; i < from.dims[d].size(); ++i) {
        if (from.dims[d][i].kind == Level::Kind::kAxis) axes.push_back(from.dims[d][i].axis);
      }
    }
    std::sort(axes.begin(), axes.end());
    return axes;
  }

  void exchange_to(Layout to) {
    const Layout& from = at_.layout();
    bool same_sets = true;
    bool gathers = true;
    for (std::size_t d = 0; d < to.dims.size(); ++d) {
      const std::int64_t size = dst_.global_shape()[d];
      same_sets = same_sets && same_index_sets(mesh_, size, from.dims[d], to.dims[d]);
      gathers = gathers && common_prefix(from.dims[d], to.dims[d]) == to.dims[d].size();
    }
    if (same_sets) return;
    std::vector<int> axes =
        num_elements(dst_.global_shape()) == 0 ? std::vector<int>{} : moved_axes(from, to);
    const Kind kind = axes.empty()                                   ? Kind::kLocal
                      : gathers                                      ? Kind::kAllGather
                      : axes.size() == 1 && turns(axes[0], from, to) ? Kind::kAllToAll
                                                                     : Kind::kExchange;
    push(kind, std::move(axes), std::move(to));
  }

  /// True if all that changes is that `axis` leaves the end of one dim's levels for the end of
  /// another's.
  bool turns(int axis, const Layout& from, const Layout& to) const {
    const int left = from.dim_of_axis(axis);
    const int entered = to.dim_of_axis(axis);
    if (left == entered || entered < 0) return false;
    Layout turned = from;
    std::erase_if(turned.dims[static_cast<std::size_t>(left)], [&](const Level& level) {
      return level.kind == Level::Kind::kAxis && level.axis == axis;
    });
    turned.dims[static_cast<std::size_t>(entered)].push_back(Level::of_axis(axis));
    turned = canonical(mesh_, view_of(dst_.global_shape()), std::move(turned));
    return turned.dims == to.dims &&
           from.dims[static_cast<std::size_t>(left)].back() == Level::of_axis(axis);
  }

  void fill() {
    if (!filled_.empty()) push(Kind::kLocal, {}, dst_.layout());
  }

  void push(Kind kind, std::vector<int> axes, Layout to) {
    StatusOr<Spec> next = Spec::make(mesh_, dst_.global_shape(), dst_.dtype(), std::move(to));
    TSR_CHECK(next.ok(), std::string(message_of(next.status())));
    plan_.steps.push_back({.kind = kind, .axes = std::move(axes), .src = at_, .dst = *next});
    at_ = *std::move(next);
  }

  const Mesh& mesh_;
  const Spec& dst_;
  Spec at_;  ///< where the steps so far lead
  std::size_t num_axes_;
  std::vector<int> reduced_;  ///< axes still to reduce, ascending
  std::vector<int> filled_;   ///< axes to fill at the end, ascending
  Plan plan_;
};

}  // namespace

std::string_view name_of(PlanStep::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"local",      "all_gather", "reduce_scatter",
                                         "all_reduce", "all_to_all", "exchange"};
  return kNames[static_cast<int>(kind)];
}

std::int64_t least_pack_bytes(std::int64_t num_ranks) noexcept {
  return 2 * kLeastChunkBytes * std::max<std::int64_t>(1, num_ranks - 1);
}

std::vector<std::int64_t> group_of(const PlanStep& step, std::int64_t rank) {
  const Mesh& mesh = step.dst.mesh();
  std::vector<std::int64_t> ranks;
  if (step.src.mesh() == mesh) {
    const std::optional<Coord> at = mesh.coord_of(rank);
    if (!at) return ranks;
    Coord coord = *at;
    for (const int axis : step.axes) coord[static_cast<std::size_t>(axis)] = 0;
    for (std::size_t i = step.axes.size();;) {
      ranks.push_back(mesh.rank_of(coord));
      for (i = step.axes.size(); i-- > 0;) {
        const auto axis = static_cast<std::size_t>(step.axes[i]);
        if (++coord[axis] < mesh.size(step.axes[i])) break;
        coord[axis] = 0;
      }
      if (i == static_cast<std::size_t>(-1)) return ranks;
    }
  }
  return ranks;
}

StatusOr<Plan> plan(const Spec& src, const Spec& dst, const PlanOptions& options) {
  std::string_view differing;
  if (src.global_shape() != dst.global_shape()) differing = "shapes";
  if (src.dtype() != dst.dtype()) differing = "dtypes";
  if (src.mesh() != dst.mesh()) differing = "meshes";
  if (!differing.empty()) {
    return invalid_argument(absl::StrFormat(
        "redistribute: %s differ; a redistribution changes placements only [from %s, "
        "to %s]",
        std::string(differing), src.to_string(), dst.to_string()));
  }
  StatusOr<Plan> made = Planner(src, dst).run();
  if (made.ok()) made->pack_bytes = options.pack_bytes;
  return made;
}

}  // namespace tessera
