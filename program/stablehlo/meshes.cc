// Shardy's meshes as ours: axes cut where a sharding names parts of them, and what groups of ranks
// lie along.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/checked_int.h"
#include "program/stablehlo/sharding.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMaxMeshes = 4096;
constexpr std::ptrdiff_t kMaxAxes = 64;  // as the reader of programs allows
constexpr std::size_t kMaxBorders = 64;  // in one axis
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 40;

}  // namespace

Levels shardy_levels(const Mesh& mesh, std::int64_t size, const std::vector<int>& axes) {
  CheckedInt ranks = 1;
  for (const int axis : axes) ranks *= mesh.size(axis);
  const std::int64_t most = ranks.clamped();
  const std::int64_t piece = size == 0 ? 1 : (size - 1) / most + 1;
  Levels levels;
  CheckedInt inner = ranks;
  for (const int axis : axes) {
    inner = inner / mesh.size(axis);
    const bool even = size % most == 0;
    levels.push_back(Level::of_axis(axis, even ? 1 : (inner * piece).clamped()));
  }
  return levels;
}

Status Meshes::add_part(const AxisRef& part) {
  std::vector<std::int64_t>& borders = borders_[part.name];
  for (const CheckedInt border : {CheckedInt(part.before), CheckedInt(part.before) * part.size}) {
    const std::int64_t at = border.clamped();
    if (at > 1 && std::ranges::find(borders, at) == borders.end()) borders.push_back(at);
  }
  if (borders.size() <= kMaxBorders) return absl::OkStatus();
  return text_->error(part.offset, absl::StrFormat("parts of axis %s with more than %d borders",
                                                   in_quotes(part.name), kMaxBorders));
}

StatusOr<std::vector<std::int64_t>> Meshes::sizes_of_parts(const Token& axis,
                                                           std::int64_t size) const {
  const auto found = borders_.find(std::string(axis.text));
  if (found == borders_.end()) return std::vector<std::int64_t>{size};
  std::vector<std::int64_t> borders = found->second;
  borders.push_back(size);
  std::ranges::sort(borders);
  std::vector<std::int64_t> sizes;
  std::int64_t before = 1;
  for (const std::int64_t border : borders) {
    if (border == before) continue;
    if (border % before != 0 || border > size) {
      return text_->error(
          axis.offset, absl::StrFormat("axis %s of %d ranks is cut behind %d and %d of them; one "
                                       "must divide the other",
                                       in_quotes(axis.text), size, before, border));
    }
    sizes.push_back(border / before);
    before = border;
  }
  if (sizes.empty()) sizes.push_back(size);
  return sizes;
}

Status Meshes::add(const Token& name, Lexer& lexer) {
  TSR_ASSIGN_OR_RETURN(const Node node, read_node(lexer));
  const Nodes inside = node.inside;
  if (!node.is_group('<') || inside.empty() || !inside[0].is_group('[')) {
    return text_->error(node.token.offset, "expected a mesh such as <[\"x\"=2, \"y\"=4]>");
  }
  std::vector<std::int64_t> shape;
  std::vector<std::string> labels, written;
  std::vector<std::vector<int>> parts;
  const Nodes axes = inside[0].inside;
  for (std::size_t i = 0; i < axes.size(); i += 4) {
    const Token& axis = axes[i].token;
    if (axis.kind != Token::Kind::kString || i + 2 >= axes.size() || !axes[i + 1].is('=') ||
        (i + 3 < axes.size() && !axes[i + 3].is(','))) {
      return text_->error(axis.offset, describe(axis) + ": expected an axis such as \"x\"=2");
    }
    TSR_ASSIGN_OR_RETURN(const std::int64_t size, integer_of(*text_, axes.subspan(i + 2, 1)));
    if (size < 1) return text_->error(axis.offset, absl::StrFormat("an axis of %d ranks", size));
    TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> sizes, sizes_of_parts(axis, size));
    std::vector<int>& places = parts.emplace_back();
    written.emplace_back(axis.text);
    std::int64_t before = 1;
    for (const std::int64_t part : sizes) {
      places.push_back(static_cast<int>(shape.size()));
      shape.push_back(part);
      labels.push_back(sizes.size() == 1
                           ? written.back()
                           : absl::StrFormat("%s_%d_%d", written.back(), before, part));
      before *= part;
    }
  }
  const std::string key(name.text);
  if (by_name_.contains(key)) {
    return text_->error(name.offset, in_quotes(key) + ": a mesh has this name already");
  }
  if (shape.empty()) {
    by_name_[key] = -1;
    return absl::OkStatus();
  }
  if (std::ssize(shape) > kMaxAxes) {
    return text_->error(name.offset, absl::StrFormat("a mesh of %d axes, parts of axes counted; at "
                                                     "most %d are allowed",
                                                     shape.size(), kMaxAxes));
  }
  StatusOr<Mesh> mesh = Mesh::make(shape, labels);
  if (!mesh.ok()) return text_->error(name.offset, message_of(mesh.status()));
  if (mesh->num_ranks() > kMaxRanks || meshes_.size() == kMaxMeshes) {
    return text_->error(name.offset, absl::StrFormat("a mesh of more than %d ranks, or more than "
                                                     "%d meshes",
                                                     kMaxRanks, kMaxMeshes));
  }
  if (const Nodes order = find_attribute(inside, "device_ids"); !order.empty()) {
    TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> ids, integers_of(*text_, order));
    std::vector<std::int64_t> in_order(ids.size());
    std::iota(in_order.begin(), in_order.end(), 0);
    if (ids != in_order || std::ssize(ids) != mesh->num_ranks()) {
      return text_->error(order[0].token.offset,
                          "device_ids in another order; allowed is that of their numbers, from 0");
    }
  }
  by_name_[key] = static_cast<int>(meshes_.size());
  meshes_.push_back({.name = key, .mesh = *std::move(mesh), .stage = {}});
  parts_.push_back(std::move(parts));
  axis_names_.push_back(std::move(written));
  return absl::OkStatus();
}

std::optional<int> Meshes::main() const {
  if (meshes_.empty()) return std::nullopt;
  return 0;
}

StatusOr<std::vector<int>> Meshes::axes_of(int mesh, const AxisRef& ref) const {
  const auto index = static_cast<std::size_t>(mesh);
  const std::vector<std::string>& names = axis_names_[index];
  const auto found = std::ranges::find(names, ref.name);
  if (found == names.end()) {
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "" : ", ") + in_quotes(name);
    return text_->error(ref.offset, in_quotes(ref.name) + ": no such axis; the mesh has " + known);
  }
  const std::vector<int>& parts = parts_[index][static_cast<std::size_t>(found - names.begin())];
  if (ref.size == 0) return parts;
  std::vector<int> axes;
  std::int64_t before = 1, size = 1;
  for (const int axis : parts) {
    if (before >= ref.before && size < ref.size) {
      axes.push_back(axis);
      size *= meshes_[index].mesh.size(axis);
    }
    before *= meshes_[index].mesh.size(axis);
  }
  if (size == ref.size) return axes;
  return text_->error(ref.offset,
                      absl::StrFormat("axis %s has no part (%d)%d: it has %d ranks",
                                      in_quotes(ref.name), ref.before, ref.size, before));
}

Status Meshes::place(const Sharding& sharding, ProgramValue& value) const {
  const auto found = by_name_.find(sharding.mesh);
  if (found == by_name_.end()) {
    return text_->error(sharding.offset, in_quotes("@" + sharding.mesh) + ": no such mesh");
  }
  value.mesh.reset();
  value.layout.reset();
  if (found->second < 0) return absl::OkStatus();
  value.mesh = found->second;
  if (sharding.dims.size() != value.global_shape.size()) {
    return text_->error(sharding.offset,
                        absl::StrFormat("a sharding of %d dims for a tensor of %d",
                                        sharding.dims.size(), value.global_shape.size()));
  }
  const Mesh& mesh = meshes_[static_cast<std::size_t>(found->second)].mesh;
  std::vector<bool> used(static_cast<std::size_t>(mesh.ndim()));
  const auto take = [&](const std::vector<AxisRef>& refs) -> StatusOr<std::vector<int>> {
    std::vector<int> axes;
    for (const AxisRef& ref : refs) {
      TSR_ASSIGN_OR_RETURN(const std::vector<int> of_ref, axes_of(found->second, ref));
      for (const int axis : of_ref) {
        if (used[static_cast<std::size_t>(axis)]) {
          return text_->error(ref.offset, "axis " + in_quotes(ref.name) +
                                              " is used twice; each cuts one dim, or none");
        }
        used[static_cast<std::size_t>(axis)] = true;
        axes.push_back(axis);
      }
    }
    return axes;
  };
  Layout layout{.dims = {}, .partial = {}};
  layout.partial.resize(static_cast<std::size_t>(mesh.ndim()));
  for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim) {
    TSR_ASSIGN_OR_RETURN(const std::vector<int> axes, take(sharding.dims[dim].axes));
    layout.dims.push_back(shardy_levels(mesh, value.global_shape[dim], axes));
  }
  TSR_RETURN_IF_ERROR(take(sharding.replicated).status());
  TSR_ASSIGN_OR_RETURN(const std::vector<int> unreduced, take(sharding.unreduced));
  for (const int axis : unreduced) layout.partial[static_cast<std::size_t>(axis)] = ReduceOp::kSum;
  if (sharding.is_free()) return absl::OkStatus();
  const Status valid = validate(mesh, view_of(value.global_shape), layout);
  if (!valid.ok()) return text_->error(sharding.offset, message_of(valid));
  value.layout = canonical(mesh, view_of(value.global_shape), std::move(layout));
  return absl::OkStatus();
}

std::vector<std::string> Meshes::axes_of_groups(int mesh, std::int64_t ranks,
                                                const std::vector<std::int64_t>& groups) const {
  const Mesh& of = meshes_[static_cast<std::size_t>(mesh)].mesh;
  constexpr int kMostAxes = 12;  // all their subsets are tried
  if (of.ndim() > kMostAxes || ranks < 2 || std::ssize(groups) != of.num_ranks()) return {};
  for (unsigned chosen = 1; chosen < 1U << of.ndim(); ++chosen) {
    std::vector<int> axes;
    std::int64_t size = 1;
    for (int axis = 0; axis < of.ndim(); ++axis) {
      if ((chosen >> axis & 1U) == 0) continue;
      axes.push_back(axis);
      size *= of.size(axis);
    }
    if (size != ranks) continue;
    const auto same = [&](std::size_t begin) {
      const StatusOr<Mesh> group = of.sub_mesh(axes, groups[begin]);
      if (!group.ok()) return false;
      std::vector<std::int64_t> expected = group->ranks();
      std::vector<std::int64_t> seen(groups.begin() + static_cast<std::ptrdiff_t>(begin),
                                     groups.begin() + static_cast<std::ptrdiff_t>(begin) + ranks);
      std::ranges::sort(expected);
      std::ranges::sort(seen);
      return expected == seen;
    };
    bool all = true;
    for (std::size_t begin = 0; all && begin < groups.size();
         begin += static_cast<std::size_t>(ranks)) {
      all = same(begin);
    }
    if (!all) continue;
    std::vector<std::string> names;
    for (const int axis : axes) names.push_back(of.axis_label(axis));
    return names;
  }
  return {};
}

}  // namespace tessera::stablehlo
