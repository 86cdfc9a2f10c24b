#include "placement/spec.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/checked_int.h"

namespace tessera {
namespace {

/// FNV-1a over 64-bit words.
class Hasher {
 public:
  void add(std::int64_t value) noexcept {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0x100000001b3ULL;
    hash_ ^= hash_ >> 29;
  }
  std::size_t hash() const noexcept { return static_cast<std::size_t>(hash_); }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
};

std::string layout_text(const Mesh& mesh, const Layout& layout) {
  std::string text = "(";
  for (const Levels& levels : layout.dims) {
    if (text.size() > 1) text += ", ";
    text += to_string(mesh, levels);
  }
  for (int a = 0; a < mesh.ndim(); ++a) {
    if (const auto& op = layout.partial[static_cast<std::size_t>(a)]) {
      text += absl::StrFormat("; %s: P(%s)", mesh.axis_label(a), std::string(name_of(*op)));
    }
  }
  return text + ")";
}

}  // namespace

Status check_tensor_size(ShapeView global_shape, DType dtype) {
  TSR_RETURN_IF_ERROR(checked_num_elements(global_shape).status());
  CheckedInt bytes = size_of(dtype);
  for (const std::int64_t size : global_shape) bytes *= std::max<std::int64_t>(size, 1);
  if (bytes <= kMaxTensorBytes) return absl::OkStatus();
  return out_of_range(absl::StrFormat("a tensor of shape %s and dtype %s exceeds 2^62 bytes",
                                      tessera::to_string(global_shape),
                                      std::string(name_of(dtype))));
}

StatusOr<Spec> Spec::make(Mesh mesh, Shape global_shape, DType dtype,
                          std::span<const Placement> placements) {
  TSR_RETURN_IF_ERROR(check_tensor_size(view_of(global_shape), dtype));
  TSR_ASSIGN_OR_RETURN(Layout layout, decode(mesh, view_of(global_shape), placements));
  return make(std::move(mesh), std::move(global_shape), dtype, std::move(layout));
}

StatusOr<Spec> Spec::make(Mesh mesh, Shape global_shape, DType dtype, Layout layout) {
  TSR_RETURN_IF_ERROR(check_tensor_size(view_of(global_shape), dtype));
  TSR_RETURN_IF_ERROR(validate(mesh, view_of(global_shape), layout));
  Spec spec;
  spec.layout_ = canonical(mesh, view_of(global_shape), std::move(layout));
  spec.mesh_ = std::move(mesh);
  spec.global_shape_ = std::move(global_shape);
  spec.dtype_ = dtype;
  return spec;
}

Spec Spec::plain(Shape global_shape, DType dtype) {
  Spec spec;
  spec.layout_.dims.resize(global_shape.size());
  spec.global_shape_ = std::move(global_shape);
  spec.dtype_ = dtype;
  return spec;
}

StatusOr<Placements> Spec::placements() const {
  return encode(mesh_, view_of(global_shape_), layout_);
}

Shape Spec::local_shape(const Coord& coord) const {
  return tessera::local_shape(mesh_, view_of(global_shape_), layout_, coord);
}

bool Spec::has_partial() const noexcept {
  for (const auto& op : layout_.partial) {
    if (op) return true;
  }
  return false;
}

Spec Spec::with_dtype(DType dtype) const {
  Spec spec = *this;
  spec.dtype_ = dtype;
  return spec;
}

std::string Spec::to_string() const {
  std::string text = std::string(name_of(dtype_)) + tessera::to_string(global_shape_);
  if (mesh_.ndim() == 0) return text;
  const StatusOr<Placements> list = placements();
  text += " " + (list.ok() ? tessera::to_string(*list) : layout_text(mesh_, layout_));
  return text + " on " + mesh_.to_string();
}

std::size_t Spec::hash() const noexcept {
  Hasher hasher;
  hasher.add(static_cast<std::int64_t>(dtype_));
  hasher.add(static_cast<std::int64_t>(global_shape_.size()));
  for (const std::int64_t size : global_shape_) hasher.add(size);
  hasher.add(mesh_.first_rank());
  for (const MeshAxis& axis : mesh_.axes()) {
    hasher.add(axis.size);
    hasher.add(axis.stride);
  }
  for (const Levels& levels : layout_.dims) {
    hasher.add(static_cast<std::int64_t>(levels.size()));
    for (const Level& level : levels) {
      hasher.add(static_cast<std::int64_t>(level.kind));
      hasher.add(level.axis);
      hasher.add(level.count);
      hasher.add(level.grain);
      if (!level.sizes) continue;
      for (const RaggedPart& part : level.sizes.parts()) {
        hasher.add(part.coord);
        hasher.add(part.stop);
      }
    }
  }
  for (const auto& op : layout_.partial) hasher.add(op ? static_cast<std::int64_t>(*op) : -1);
  return hasher.hash();
}

}  // namespace tessera
