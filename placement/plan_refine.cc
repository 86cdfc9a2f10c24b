#include "placement/plan_refine.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "placement/layout_pattern.h"

namespace tessera {
namespace {

/// Axes of one mesh split at the borders of another.
struct Refinement {
  std::vector<MeshAxis> axes;           ///< without those of size 1
  std::vector<std::vector<int>> parts;  ///< of each old axis, major first: places in `axes`
};

/// Strides at which axes begin or end.
void add_borders(const Mesh& mesh, std::vector<std::int64_t>& borders) {
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    borders.push_back(axis.stride);
    borders.push_back(axis.stride * axis.size);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
}

std::optional<Refinement> refine(const Mesh& mesh, const std::vector<std::int64_t>& borders) {
  Refinement refined;
  for (const MeshAxis& axis : mesh.axes()) {
    refined.parts.emplace_back();
    if (axis.size == 1) continue;
    // From the outer end inwards.
    std::int64_t outer = axis.stride * axis.size;
    const bool whole = std::none_of(borders.begin(), borders.end(), [&](std::int64_t border) {
      return border > axis.stride && border < outer;
    });
    for (auto border = borders.rbegin(); border != borders.rend(); ++border) {
      if (*border >= outer || *border < axis.stride) continue;
      if (outer % *border != 0) return std::nullopt;
      refined.parts.back().push_back(static_cast<int>(refined.axes.size()));
      const std::string part = std::to_string(refined.parts.back().size() - 1);
      refined.axes.push_back({axis.name.empty() || whole ? axis.name : axis.name + "_" + part,
                              outer / *border, *border});
      outer = *border;
    }
  }
  return refined;
}

/// One cut along an axis, and along the parts that it is split into.
struct SplitCut {
  std::vector<std::int64_t> sizes;  ///< of the parts, major first
  std::int64_t grain = 1;

  std::int64_t chunk_of(std::int64_t length, std::int64_t parts) const {
    const std::int64_t units = pattern::ceil_div(pattern::ceil_div(length, grain), parts);
    return std::min(length, units * grain);
  }
  /// True if cutting a piece along part `i` and those after it gives chunks of `chunk`.
  bool agrees(std::int64_t length, std::size_t i, std::int64_t chunk) const {
    const std::int64_t own = chunk_of(length, sizes[i]);
    if (i + 1 == sizes.size()) return own == std::min(chunk, length);
    if (own < length) {
      std::int64_t inner = chunk;
      for (std::size_t j = i + 1; j < sizes.size(); ++j) inner *= sizes[j];
      if (own != inner) return false;
    }
    const std::int64_t tail = length % own;
    return agrees(own, i + 1, chunk) && (tail == 0 || agrees(tail, i + 1, chunk));
  }
};

/// The levels with each axis replaced by its parts; nullopt where that gives other index sets.
std::optional<Levels> split(const Spec& spec, std::size_t dim, const Refinement& refined) {
  const Mesh& mesh = spec.mesh();
  Levels out;
  pattern::Lengths lengths = pattern::lengths_of(spec.global_shape()[dim]);
  for (const Level& level : spec.layout().dims[dim]) {
    if (level.kind != Level::Kind::kAxis) {
      out.push_back(level);
    } else if (level.sizes) {
      const auto& parts = refined.parts[static_cast<std::size_t>(level.axis)];
      if (parts.size() != 1) return std::nullopt;
      out.push_back(Level::of_ragged(parts[0], level.sizes));
    } else {
      SplitCut cut{.sizes = {}, .grain = level.grain};
      for (const int part : refined.parts[static_cast<std::size_t>(level.axis)]) {
        cut.sizes.push_back(refined.axes[static_cast<std::size_t>(part)].size);
        out.push_back(Level::of_axis(part, level.grain));
      }
      const bool same = std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t length) {
        return cut.sizes.size() < 2 ||
               cut.agrees(length, 0, pattern::chunk_of(mesh, level, length));
      });
      if (!same) return std::nullopt;
    }
    lengths = pattern::lengths_after(mesh, level, lengths);
  }
  return out;
}

std::optional<Layout> split(const Spec& spec, const Refinement& refined) {
  Layout layout;
  for (std::size_t d = 0; d < spec.global_shape().size(); ++d) {
    std::optional<Levels> levels = split(spec, d, refined);
    if (!levels) return std::nullopt;
    layout.dims.push_back(*std::move(levels));
  }
  layout.partial.resize(refined.axes.size());
  for (std::size_t a = 0; a < refined.parts.size(); ++a) {
    for (const int part : refined.parts[a]) {
      layout.partial[static_cast<std::size_t>(part)] = spec.layout().partial[a];
    }
  }
  return layout;
}

/// `layout`, whose axes are numbered as in `from`, numbered as in `to`.
Layout renumber(Layout layout, const std::vector<MeshAxis>& from, const std::vector<MeshAxis>& to) {
  std::vector<int> place;
  for (const MeshAxis& axis : from) {
    const auto at = std::find_if(
        to.begin(), to.end(), [&](const MeshAxis& other) { return other.stride == axis.stride; });
    place.push_back(static_cast<int>(at - to.begin()));
  }
  for (Levels& levels : layout.dims) {
    for (Level& level : levels) {
      if (level.kind == Level::Kind::kAxis)
        level.axis = place[static_cast<std::size_t>(level.axis)];
    }
  }
  std::vector<std::optional<ReduceOp>> partial(to.size());
  for (std::size_t a = 0; a < from.size(); ++a) {
    partial[static_cast<std::size_t>(place[a])] = layout.partial[a];
  }
  layout.partial = std::move(partial);
  return layout;
}

bool same_axes(const std::vector<MeshAxis>& a, const std::vector<MeshAxis>& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const MeshAxis& axis) {
           return std::any_of(b.begin(), b.end(), [&](const MeshAxis& other) {
             return other.stride == axis.stride && other.size == axis.size;
           });
         });
}

/// The mesh of these axes: those of a row-major mesh with axes in the gaps between strides.
std::optional<Mesh> mesh_of(std::int64_t first_rank, const std::vector<MeshAxis>& axes) {
  std::vector<int> by_stride(axes.size());
  std::iota(by_stride.begin(), by_stride.end(), 0);
  std::sort(by_stride.begin(), by_stride.end(), [&](int x, int y) {
    return axes[static_cast<std::size_t>(x)].stride > axes[static_cast<std::size_t>(y)].stride;
  });
  std::vector<std::int64_t> sizes;  // innermost first
  std::vector<std::string> names;
  std::vector<int> place(axes.size());
  std::int64_t expected = 1;
  for (auto at = by_stride.rbegin(); at != by_stride.rend(); ++at) {
    const MeshAxis& axis = axes[static_cast<std::size_t>(*at)];
    if (axis.stride % expected != 0) return std::nullopt;
    if (axis.stride > expected) sizes.push_back(axis.stride / expected);
    place[static_cast<std::size_t>(*at)] = static_cast<int>(sizes.size());
    sizes.push_back(axis.size);
    expected = axis.stride * axis.size;
  }
  names.resize(sizes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    names[static_cast<std::size_t>(place[i])] = axes[i].name;
    place[i] = static_cast<int>(sizes.size()) - 1 - place[i];
  }
  std::reverse(sizes.begin(), sizes.end());
  std::reverse(names.begin(), names.end());
  const bool named = std::none_of(names.begin(), names.end(),
                                  [](const std::string& name) { return name.empty(); });
  if (!named) names.clear();
  const StatusOr<Mesh> all = Mesh::make(sizes, std::move(names), first_rank);
  if (!all.ok()) return std::nullopt;
  StatusOr<Mesh> mesh = all->sub_mesh(place, first_rank);
  if (!mesh.ok()) return std::nullopt;
  return *std::move(mesh);
}

/// Kinds of Partial that reduce in another order on the other mesh must commute.
bool keeps_order(const Layout& layout) {
  std::optional<ReduceOp> kind;
  for (const auto& op : layout.partial) {
    if (op && kind && *op != *kind) return false;
    if (op) kind = op;
  }
  return true;
}

}  // namespace

std::optional<std::pair<Spec, Spec>> on_common_mesh(const Spec& a, const Spec& b) {
  if (a.mesh().first_rank() != b.mesh().first_rank() ||
      a.mesh().num_ranks() != b.mesh().num_ranks()) {
    return std::nullopt;
  }
  std::vector<std::int64_t> borders;
  add_borders(a.mesh(), borders);
  add_borders(b.mesh(), borders);
  const std::optional<Refinement> of_a = refine(a.mesh(), borders);
  const std::optional<Refinement> of_b = refine(b.mesh(), borders);
  if (!of_a || !of_b || !same_axes(of_a->axes, of_b->axes)) return std::nullopt;
  std::optional<Layout> layout_a = split(a, *of_a);
  std::optional<Layout> layout_b = split(b, *of_b);
  if (!layout_a || !layout_b) return std::nullopt;
  const bool same_order =
      std::equal(of_a->axes.begin(), of_a->axes.end(), of_b->axes.begin(),
                 [](const MeshAxis& x, const MeshAxis& y) { return x.stride == y.stride; });
  if (!same_order && !keeps_order(*layout_a)) return std::nullopt;
  const std::optional<Mesh> mesh = mesh_of(b.mesh().first_rank(), of_b->axes);
  if (!mesh) return std::nullopt;
  StatusOr<Spec> first = Spec::make(*mesh, a.global_shape(), a.dtype(),
                                    renumber(*std::move(layout_a), of_a->axes, of_b->axes));
  StatusOr<Spec> second = Spec::make(*mesh, b.global_shape(), b.dtype(), *std::move(layout_b));
  if (!first.ok() || !second.ok()) return std::nullopt;
  return std::pair{*std::move(first), *std::move(second)};
}

}  // namespace tessera
