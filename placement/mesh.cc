#include "placement/mesh.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

bool is_axis_name(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

Status check_names(const std::vector<MeshAxis>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string& name = axes[i].name;
    if (!is_axis_name(name)) {
      return invalid_argument(absl::StrFormat(
          "mesh: '%s' is no axis name; allowed are letters, digits and _, not a digit first",
          name));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[j].name == name) {
        return invalid_argument(absl::StrFormat("mesh: axis name '%s' occurs twice", name));
      }
    }
  }
  return absl::OkStatus();
}

Status check_axis(const Mesh& mesh, int axis) {
  if (axis >= 0 && axis < mesh.ndim()) return absl::OkStatus();
  return invalid_argument(absl::StrFormat("mesh %s has no axis %d; it has %d axes",
                                          mesh.to_string(), axis, mesh.ndim()));
}

}  // namespace

StatusOr<Mesh> Mesh::make(ShapeView shape, std::vector<std::string> names,
                          std::int64_t first_rank) {
  if (!names.empty() && names.size() != shape.size()) {
    return invalid_argument(absl::StrFormat(
        "mesh: shape %s has %d axes but %d names are given; give one name per axis, or none",
        tessera::to_string(shape), static_cast<int>(shape.size()), static_cast<int>(names.size())));
  }
  if (shape.size() > static_cast<std::size_t>(kMaxDims)) {
    return invalid_argument(absl::StrFormat("mesh: %d axes given; at most %d are allowed",
                                            static_cast<int>(shape.size()), kMaxDims));
  }
  if (first_rank < 0) {
    return invalid_argument(absl::StrFormat("mesh: first rank %d is negative", first_rank));
  }
  Mesh mesh;
  mesh.first_rank_ = first_rank;
  mesh.axes_.resize(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] < 1) {
      return invalid_argument(
          absl::StrFormat("mesh: shape %s has an axis of size %d; axes have at least 1 rank",
                          tessera::to_string(shape), shape[i]));
    }
    mesh.axes_[i] = {names.empty() ? std::string() : std::move(names[i]), shape[i], stride};
    if (__builtin_mul_overflow(stride, shape[i], &stride)) {
      return out_of_range(absl::StrFormat("mesh: shape %s has more than 2^63 - 1 ranks",
                                          tessera::to_string(shape)));
    }
  }
  if (std::int64_t end = 0; __builtin_add_overflow(first_rank, stride, &end)) {
    return out_of_range(absl::StrFormat("mesh: ranks from %d on exceed 2^63 - 1", first_rank));
  }
  if (!names.empty()) TSR_RETURN_IF_ERROR(check_names(mesh.axes_));
  return mesh;
}

Shape Mesh::shape() const {
  Shape shape;
  for (const MeshAxis& axis : axes_) shape.push_back(axis.size);
  return shape;
}

std::int64_t Mesh::num_ranks() const noexcept {
  std::int64_t product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

StatusOr<int> Mesh::find_axis(std::string_view name) const {
  for (int i = 0; i < ndim(); ++i) {
    if (!name.empty() && axis(i).name == name) return i;
  }
  int position = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, position);
  const bool is_number = error == std::errc() && stop == end && !name.empty();
  if (is_number && position >= -ndim() && position < ndim()) {
    return position < 0 ? position + ndim() : position;
  }
  return invalid_argument(
      absl::StrFormat("mesh %s has no axis '%s'", to_string(), std::string(name)));
}

std::string Mesh::axis_label(int axis) const {
  const std::string& name = axes_[static_cast<std::size_t>(axis)].name;
  return name.empty() ? std::to_string(axis) : name;
}

std::string Mesh::axis_labels(std::span<const int> axes) const {
  std::string text;
  for (const int axis : axes) text += (text.empty() ? "" : ",") + axis_label(axis);
  return text;
}

std::int64_t Mesh::rank_of(const Coord& coord) const {
  std::int64_t rank = first_rank_;
  for (std::size_t i = 0; i < axes_.size(); ++i) rank += coord[i] * axes_[i].stride;
  return rank;
}

std::vector<std::int64_t> Mesh::ranks() const {
  std::vector<std::int64_t> ranks{first_rank_};
  for (const MeshAxis& axis : axes_) {
    std::vector<std::int64_t> longer;
    longer.reserve(ranks.size() * static_cast<std::size_t>(axis.size));
    for (const std::int64_t rank : ranks) {
      for (std::int64_t c = 0; c < axis.size; ++c) longer.push_back(rank + c * axis.stride);
    }
    ranks = std::move(longer);
  }
  return ranks;
}

std::optional<Coord> Mesh::coord_of(std::int64_t rank) const {
  std::int64_t rest = rank - first_rank_;
  if (rest < 0) return std::nullopt;
  Coord coord(axes_.size(), 0);
  // Strides nest, so that the axes are peeled off from the widest stride to the narrowest.
  std::int64_t below = 0;  // the stride peeled last; 0 before the first
  while (true) {
    std::size_t widest = axes_.size();
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      if (axes_[i].size == 1 || (below != 0 && axes_[i].stride >= below)) continue;
      if (widest == axes_.size() || axes_[i].stride > axes_[widest].stride) widest = i;
    }
    if (widest == axes_.size()) break;
    const MeshAxis& axis = axes_[widest];
    coord[widest] = rest / axis.stride;
    if (coord[widest] >= axis.size) return std::nullopt;
    rest %= axis.stride;
    below = axis.stride;
  }
  if (rest != 0) return std::nullopt;
  return coord;
}

std::vector<std::int64_t> Mesh::group_along(int axis, std::int64_t rank) const {
  const std::optional<Coord> coord = coord_of(rank);
  if (!coord) return {};
  const MeshAxis& along = this->axis(axis);
  const std::int64_t first = rank - (*coord)[static_cast<std::size_t>(axis)] * along.stride;
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(along.size));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = first + static_cast<std::int64_t>(i) * along.stride;
  }
  return ranks;
}

StatusOr<Mesh> Mesh::sub_mesh(std::span<const int> axes, std::int64_t rank) const {
  const std::optional<Coord> coord = coord_of(rank);
  if (!coord) {
    return out_of_range(absl::StrFormat("sub_mesh: rank %d is not in mesh %s", rank, to_string()));
  }
  Mesh mesh;
  mesh.first_rank_ = rank;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    TSR_RETURN_IF_ERROR(check_axis(*this, axes[i]));
    for (std::size_t j = 0; j < i; ++j) {
      if (axes[j] == axes[i]) {
        return invalid_argument(absl::StrFormat("sub_mesh: axis %s of mesh %s is listed twice",
                                                axis_label(axes[i]), to_string()));
      }
    }
    mesh.axes_.push_back(axis(axes[i]));
    mesh.first_rank_ -= (*coord)[static_cast<std::size_t>(axes[i])] * axis(axes[i]).stride;
  }
  return mesh;
}

StatusOr<Mesh> Mesh::flatten(int first, int count, std::string name) const {
  if (first < 0 || count < 1 || first + count > ndim()) {
    return invalid_argument(absl::StrFormat("mesh %s: cannot flatten %d axes from axis %d on",
                                            to_string(), count, first));
  }
  MeshAxis merged{std::move(name), 1, axis(first + count - 1).stride};
  const bool join_names = merged.name.empty();
  for (int i = first + count; i-- > first;) {
    const MeshAxis& next = axis(i);
    if (merged.size == 1) merged.stride = next.stride;
    if (next.size > 1 && merged.size > 1 && next.stride != merged.stride * merged.size) {
      return invalid_argument(
          absl::StrFormat("mesh %s: axis %s does not nest over the axes to its right (rank stride "
                          "%d, %d expected), so that they cannot be flattened",
                          to_string(), axis_label(i), next.stride, merged.stride * merged.size));
    }
    merged.size *= next.size;
    if (join_names && !next.name.empty()) {
      merged.name = merged.name.empty() ? next.name : next.name + "_" + merged.name;
    }
  }
  Mesh mesh;
  mesh.first_rank_ = first_rank_;
  mesh.axes_.assign(axes_.begin(), axes_.begin() + first);
  mesh.axes_.push_back(std::move(merged));
  mesh.axes_.insert(mesh.axes_.end(), axes_.begin() + first + count, axes_.end());
  const bool named = std::any_of(mesh.axes_.begin(), mesh.axes_.end(),
                                 [](const MeshAxis& axis) { return !axis.name.empty(); });
  if (named) TSR_RETURN_IF_ERROR(check_names(mesh.axes_));
  return mesh;
}

StatusOr<Mesh> Mesh::refactor(ShapeView shape, std::vector<std::string> names) const {
  std::int64_t expected = 1;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    if (axes_[i].size > 1 && axes_[i].stride != expected) {
      return invalid_argument(absl::StrFormat(
          "mesh %s: its ranks are not contiguous in row-major order (axis %s has rank stride %d, "
          "%d expected), so that it cannot be refactored",
          to_string(), axis_label(static_cast<int>(i)), axes_[i].stride, expected));
    }
    expected *= axes_[i].size;
  }
  TSR_ASSIGN_OR_RETURN(Mesh mesh, make(shape, std::move(names), first_rank_));
  if (mesh.num_ranks() != num_ranks()) {
    return invalid_argument(
        absl::StrFormat("mesh %s has %d ranks, but %s has %d; a refactored mesh keeps them",
                        to_string(), num_ranks(), tessera::to_string(shape), mesh.num_ranks()));
  }
  return mesh;
}

Mesh Mesh::without_unit_axes() const {
  Mesh mesh;
  mesh.first_rank_ = first_rank_;
  for (const MeshAxis& axis : axes_) {
    if (axis.size > 1) mesh.axes_.push_back(axis);
  }
  return mesh;
}

std::string Mesh::to_string() const {
  std::string text = "{";
  for (const MeshAxis& axis : axes_) {
    if (text.size() > 1) text += ", ";
    if (!axis.name.empty()) text += axis.name + ": ";
    text += std::to_string(axis.size);
  }
  return text + "}";
}

}  // namespace tessera
