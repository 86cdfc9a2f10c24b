#include "placement/plan_step.h"

#include <algorithm>

#include "placement/layout_pattern.h"
#include "placement/plan_cost.h"
#include "placement/plan_roles.h"

namespace tessera {
namespace {

using Kind = PlanStep::Kind;

bool has_axis(const Levels& levels, int axis) {
  return std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
    return level.kind == Level::Kind::kAxis && level.axis == axis;
  });
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

void sort_unique(std::vector<int>& axes) {
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
}

/// Axes of one mesh along which aligned readers and senders differ.
std::vector<int> moved_axes(const PlanStep& step) {
  const Mesh& mesh = step.src.mesh();
  const Roles roles = roles_of(step);
  const auto role = [&](int axis) { return roles.of_axis[static_cast<std::size_t>(axis)]; };
  std::vector<int> axes;
  if (num_elements(step.dst.global_shape()) == 0) return axes;
  for (std::size_t d = 0; d < step.src.layout().dims.size(); ++d) {
    const Levels& from = step.src.layout().dims[d];
    const Levels& to = step.dst.layout().dims[d];
    if (holds_within(mesh, step.dst.global_shape()[d], to, from)) continue;
    for (std::size_t i = common_prefix(from, to); i < from.size(); ++i) {
      if (from[i].kind == Level::Kind::kAxis && role(from[i].axis) == AxisRole::kOwner) {
        axes.push_back(from[i].axis);
      }
    }
  }
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (role(axis) == AxisRole::kFold && mesh.size(axis) > 1) axes.push_back(axis);
  }
  sort_unique(axes);
  return axes;
}

/// True if all that changes is that `axis` leaves the end of one dim's levels for the end of
/// another's.
bool turns(int axis, const Spec& from, const Spec& to) {
  const int left = from.layout().dim_of_axis(axis);
  const int entered = to.layout().dim_of_axis(axis);
  if (left < 0 || left == entered || entered < 0) return false;
  const Levels& levels = from.layout().dims[static_cast<std::size_t>(left)];
  if (levels.back() != Level::of_axis(axis)) return false;
  Layout turned = from.layout();
  turned.dims[static_cast<std::size_t>(left)].pop_back();
  turned.dims[static_cast<std::size_t>(entered)].push_back(Level::of_axis(axis));
  turned = canonical(from.mesh(), view_of(from.global_shape()), std::move(turned));
  return turned.dims == to.layout().dims;
}

Kind kind_of(const PlanStep& step) {
  if (step.src.mesh() != step.dst.mesh()) return Kind::kExchange;
  if (step.axes.empty()) return Kind::kLocal;
  const Layout& from = step.src.layout();
  const Layout& to = step.dst.layout();
  if (fold_of(step)) {
    const Roles roles = roles_of(step);
    const bool folds_only = std::all_of(step.axes.begin(), step.axes.end(), [&](int axis) {
      return roles.of_axis[static_cast<std::size_t>(axis)] == AxisRole::kFold;
    });
    const bool fills =
        std::any_of(roles.fills.begin(), roles.fills.end(), [](bool f) { return f; });
    if (folds_only && !fills && from.dims == to.dims) return Kind::kAllReduce;
    const bool scatters = std::any_of(step.axes.begin(), step.axes.end(), [&](int axis) {
      return roles.of_axis[static_cast<std::size_t>(axis)] == AxisRole::kFold &&
             to.dim_of_axis(axis) >= 0;
    });
    return scatters ? Kind::kReduceScatter : Kind::kExchange;
  }
  bool gathers = true;
  for (std::size_t d = 0; d < to.dims.size(); ++d) {
    gathers = gathers && common_prefix(from.dims[d], to.dims[d]) == to.dims[d].size();
  }
  if (gathers) return Kind::kAllGather;
  return step.axes.size() == 1 && turns(step.axes[0], step.src, step.dst) ? Kind::kAllToAll
                                                                          : Kind::kExchange;
}

/// Cuts the dim that leaves the smallest largest part along `axis`; of equal ones the outermost, so
/// that parts are rows.
void share_along(const Spec& spec, int axis, const Layout* later, Layout& part) {
  const Mesh& mesh = spec.mesh();
  if (part.dims.empty() || mesh.size(axis) == 1 || part.dim_of_axis(axis) >= 0) return;
  if (const int dim = later == nullptr ? -1 : later->dim_of_axis(axis); dim >= 0) {
    part.dims[static_cast<std::size_t>(dim)].push_back(Level::of_axis(axis));
    part = canonical(mesh, view_of(spec.global_shape()), std::move(part));
    return;
  }
  const Shape shape =
      local_shape(mesh, view_of(spec.global_shape()), part, fullest_coord(mesh, part));
  std::size_t best = 0;
  const auto share = [&](std::size_t d) {
    const std::int64_t cut = pattern::ceil_div(shape[d], mesh.size(axis));
    return shape[d] == 0 ? 0.0 : static_cast<double>(cut) / static_cast<double>(shape[d]);
  };
  for (std::size_t d = 1; d < shape.size(); ++d) {
    if (share(d) < share(best)) best = d;
  }
  part.dims[best].push_back(Level::of_axis(axis));
  part = canonical(mesh, view_of(spec.global_shape()), std::move(part));
}

/// `to` cut along every one of `axes` so that the largest part is smallest: all ways are tried.
Layout most_even(const Spec& to, const std::vector<int>& axes) {
  const Coord fullest = fullest_coord(to.mesh(), to.layout());
  const std::size_t ndim = to.global_shape().size();
  Layout best = to.layout();
  std::int64_t least = INT64_MAX;
  std::vector<std::size_t> dims(axes.size(), 0);
  while (ndim > 0) {
    Layout part = to.layout();
    for (std::size_t i = 0; i < axes.size(); ++i) {
      part.dims[dims[i]].push_back(Level::of_axis(axes[i]));
    }
    const std::int64_t largest =
        num_elements(local_shape(to.mesh(), view_of(to.global_shape()), part, fullest));
    if (largest < least) {
      least = largest;
      best = std::move(part);
    }
    std::size_t i = 0;
    while (i < dims.size() && ++dims[i] == ndim) dims[i++] = 0;
    if (i == dims.size()) break;
  }
  return canonical(to.mesh(), view_of(to.global_shape()), std::move(best));
}

/// Cuts along axes of the source that the target leaves alone stay, after those of the target.
void keep_source_cuts(const Spec& from, Layout& part) {
  const Layout& source = from.layout();
  for (std::size_t d = 0; d < part.dims.size(); ++d) {
    const Levels& levels = source.dims[d];
    Levels tail(levels.begin() + static_cast<std::ptrdiff_t>(common_prefix(levels, part.dims[d])),
                levels.end());
    const bool extends = tail.size() + part.dims[d].size() == levels.size();
    const bool leads = part.dims[d].empty();
    std::erase_if(tail, [&](const Level& level) {
      if (level.sizes && !leads && !pattern::owns(level)) return true;
      if (level.kind != Level::Kind::kAxis) return !extends;
      return part.dim_of_axis(level.axis) >= 0 ||
             part.partial[static_cast<std::size_t>(level.axis)].has_value();
    });
    part.dims[d].insert(part.dims[d].end(), tail.begin(), tail.end());
  }
  part = canonical(from.mesh(), view_of(from.global_shape()), std::move(part));
}

}  // namespace

std::size_t common_prefix(const Levels& a, const Levels& b) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(in_a - a.begin());
}

bool replicates(const Layout& layout, int axis) {
  return layout.dim_of_axis(axis) < 0 && !layout.partial[static_cast<std::size_t>(axis)];
}

Spec with_layout(const Spec& spec, Layout layout) {
  StatusOr<Spec> made =
      Spec::make(spec.mesh(), spec.global_shape(), spec.dtype(), std::move(layout));
  TSR_CHECK(made.ok(), std::string(message_of(made.status())));
  return *std::move(made);
}

Layout without_partial(Layout layout, const std::vector<int>& axes) {
  for (const int axis : axes) layout.partial[static_cast<std::size_t>(axis)].reset();
  return layout;
}

bool same_elements(const Spec& from, const Spec& to) {
  if (from.layout().partial != to.layout().partial) return false;
  for (std::size_t d = 0; d < to.layout().dims.size(); ++d) {
    if (!same_index_sets(to.mesh(), to.global_shape()[d], from.layout().dims[d],
                         to.layout().dims[d])) {
      return false;
    }
  }
  return true;
}

PlanStep direct_step(const Spec& from, const Spec& to) {
  PlanStep step{.src = from, .dst = to};
  if (from.mesh() == to.mesh()) {
    step.axes = moved_axes(step);
  } else {
    step.replica = ReplicaChoice::kSpread;
  }
  step.kind = kind_of(step);
  return step;
}

std::vector<PlanStep> relay_steps(const Spec& from, const Spec& part, const Spec& to) {
  PlanStep into = direct_step(from, part);
  const bool folds = fold_of(into).has_value();
  into.host = to;
  if (!folds) into.kept = from;
  PlanStep gather{.src = part, .dst = to, .host = to, .in_place = true};
  if (!folds) gather.kept = from;
  gather.axes = moved_axes(gather);
  gather.kind = Kind::kAllGather;
  return {std::move(into), std::move(gather)};
}

Layout shared_part(const Spec& from, const Spec& to, Sharing sharing, const Layout* later) {
  Layout part = to.layout();
  const bool one_mesh = from.mesh() == to.mesh();
  if (sharing == Sharing::kEven) {
    std::vector<int> axes;
    for (int axis = 0; axis < to.mesh().ndim(); ++axis) {
      if (replicates(to.layout(), axis) && to.mesh().size(axis) > 1) axes.push_back(axis);
    }
    return most_even(to, axes);
  }
  if (one_mesh) keep_source_cuts(from, part);
  for (const bool reduced : {true, false}) {
    for (int axis = 0; axis < to.mesh().ndim(); ++axis) {
      const bool folds = one_mesh && from.layout().partial[static_cast<std::size_t>(axis)];
      if (folds != reduced || !replicates(to.layout(), axis)) continue;
      if (reduced || sharing != Sharing::kReduced) share_along(to, axis, later, part);
    }
  }
  return part;
}

}  // namespace tessera
