#include "placement/layout.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/layout_pattern.h"

namespace tessera {
namespace {

/// Of stated sizes: one a coord, and no grain beside them.
Status check_ragged(const Mesh& mesh, const Level& level, int dim) {
  if (!level.sizes) return absl::OkStatus();
  if (level.kind != Level::Kind::kAxis || level.grain != 1) {
    return invalid_argument(
        absl::StrFormat("layout: dim %d states sizes on a level that is not a plain axis", dim));
  }
  const Status sizes = level.sizes.check();
  if (!sizes.ok()) {
    return invalid_argument(absl::StrFormat("layout: dim %d, axis %s: %s", dim,
                                            mesh.axis_label(level.axis),
                                            std::string(message_of(sizes))));
  }
  if (level.sizes.num_coords() == mesh.size(level.axis)) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "layout: dim %d states %d sizes (%s) along axis %s of %d ranks; give one a rank", dim,
      level.sizes.num_coords(), level.sizes.to_string(), mesh.axis_label(level.axis),
      mesh.size(level.axis)));
}

/// Sizes add up to the dim, and cut it before anything else but axes with one owner: so they stay
/// right whichever other axes come and go.
Status check_sums(const Mesh& mesh, std::int64_t size, const Levels& levels, int dim) {
  bool first = true;
  for (const Level& level : levels) {
    if (level.sizes && level.sizes.total() != size) {
      return invalid_argument(absl::StrFormat(
          "layout: sizes %s along axis %s add up to %d, but dim %d has %d elements",
          level.sizes.to_string(), mesh.axis_label(level.axis), level.sizes.total(), dim, size));
    }
    if (pattern::owns(level)) continue;
    if (level.sizes && !first && size > 0) {
      return invalid_argument(absl::StrFormat(
          "layout: sizes %s along axis %s cut dim %d after %s; stated sizes have to be the first "
          "cut of a dim",
          level.sizes.to_string(), mesh.axis_label(level.axis), dim, to_string(mesh, levels)));
    }
    first = false;
  }
  return absl::OkStatus();
}

Status check_level(const Mesh& mesh, const Level& level, int dim) {
  if (level.kind == Level::Kind::kAxis) {
    if (level.axis < 0 || level.axis >= mesh.ndim()) {
      return invalid_argument(
          absl::StrFormat("layout: dim %d names axis %d, but mesh %s has %d axes", dim, level.axis,
                          mesh.to_string(), mesh.ndim()));
    }
  } else if (level.count < 1) {
    return invalid_argument(absl::StrFormat("layout: dim %d has a %s of %d; at least 1 is allowed",
                                            dim, level.kind == Level::Kind::kRun ? "run" : "block",
                                            level.count));
  }
  if (level.grain < 1) {
    return invalid_argument(absl::StrFormat(
        "layout: dim %d has a level with grain %d; at least 1 is allowed", dim, level.grain));
  }
  return check_ragged(mesh, level, dim);
}

/// More cuts than this say nothing that fewer could not, and cost exponential time.
constexpr int kMaxCuts = 16;

}  // namespace

bool Layout::is_ragged() const {
  return std::any_of(dims.begin(), dims.end(), [](const Levels& levels) {
    return std::any_of(levels.begin(), levels.end(),
                       [](const Level& level) { return static_cast<bool>(level.sizes); });
  });
}

bool Layout::is_replicated() const {
  const bool has_axis = std::any_of(dims.begin(), dims.end(), [](const Levels& levels) {
    return std::any_of(levels.begin(), levels.end(),
                       [](const Level& level) { return level.kind == Level::Kind::kAxis; });
  });
  return !has_axis && std::none_of(partial.begin(), partial.end(),
                                   [](const auto& op) { return op.has_value(); });
}

int Layout::dim_of_axis(int axis) const {
  for (std::size_t d = 0; d < dims.size(); ++d) {
    for (const Level& level : dims[d]) {
      if (level.kind == Level::Kind::kAxis && level.axis == axis) return static_cast<int>(d);
    }
  }
  return -1;
}

Status validate(const Mesh& mesh, ShapeView global_shape, const Layout& layout) {
  if (layout.dims.size() != global_shape.size()) {
    return invalid_argument(absl::StrFormat("layout: levels for %d dims given, but shape %s has %d",
                                            static_cast<int>(layout.dims.size()),
                                            to_string(global_shape),
                                            static_cast<int>(global_shape.size())));
  }
  if (layout.partial.size() != static_cast<std::size_t>(mesh.ndim())) {
    return invalid_argument(
        absl::StrFormat("layout: partial has %d entries, but mesh %s has %d axes",
                        static_cast<int>(layout.partial.size()), mesh.to_string(), mesh.ndim()));
  }
  std::vector<int> uses(layout.partial.size(), 0);
  for (std::size_t a = 0; a < uses.size(); ++a) uses[a] = layout.partial[a].has_value() ? 1 : 0;
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    int cuts = 0;
    for (const Level& level : layout.dims[d]) {
      TSR_RETURN_IF_ERROR(check_level(mesh, level, static_cast<int>(d)));
      if (level.kind == Level::Kind::kAxis) {
        ++uses[static_cast<std::size_t>(level.axis)];
      } else if (++cuts > kMaxCuts) {
        return invalid_argument(absl::StrFormat(
            "layout: dim %d has more than %d run and block levels", static_cast<int>(d), kMaxCuts));
      }
    }
    if (layout.is_ragged()) {
      TSR_RETURN_IF_ERROR(check_sums(mesh, global_shape[d], layout.dims[d], static_cast<int>(d)));
    }
  }
  for (int a = 0; a < mesh.ndim(); ++a) {
    if (uses[static_cast<std::size_t>(a)] > 1) {
      return invalid_argument(absl::StrFormat(
          "layout: axis %s of mesh %s is used twice; it may cut one dim once, or be "
          "Partial",
          mesh.axis_label(a), mesh.to_string()));
    }
  }
  return absl::OkStatus();
}

std::int64_t local_size(const Mesh& mesh, std::int64_t size, const Levels& levels,
                        const Coord& coord) {
  return pattern::Pattern(mesh, levels, coord).held(size);
}

Shape local_shape(const Mesh& mesh, ShapeView global_shape, const Layout& layout,
                  const Coord& coord) {
  Shape shape;
  for (std::size_t d = 0; d < global_shape.size(); ++d) {
    shape.push_back(local_size(mesh, global_shape[d], layout.dims[d], coord));
  }
  return shape;
}

Coord fullest_coord(const Mesh& mesh, const Layout& layout) {
  Coord coord(static_cast<std::size_t>(mesh.ndim()), 0);
  for (const Levels& levels : layout.dims) {
    for (const Level& level : levels) {
      if (level.sizes) coord[static_cast<std::size_t>(level.axis)] = level.sizes.fullest();
    }
  }
  return coord;
}

std::vector<Interval> local_intervals(const Mesh& mesh, std::int64_t size, const Levels& levels,
                                      const Coord& coord) {
  std::vector<Interval> intervals;
  pattern::Pattern(mesh, levels, coord).intervals(size, {0, size}, intervals);
  return intervals;
}

std::int64_t local_to_global(const Mesh& mesh, std::int64_t size, const Levels& levels,
                             const Coord& coord, std::int64_t local_index) {
  return pattern::Pattern(mesh, levels, coord).to_global(size, local_index);
}

std::int64_t global_to_local(const Mesh& mesh, std::int64_t size, const Levels& levels,
                             const Coord& coord, std::int64_t global_index) {
  return pattern::Pattern(mesh, levels, coord).to_local(size, global_index);
}

Coord owner_of(const Mesh& mesh, std::int64_t size, const Levels& levels,
               std::int64_t global_index) {
  return pattern::stretch_at(mesh, size, levels, global_index).coord;
}

}  // namespace tessera
