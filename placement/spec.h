// placement/spec.h: everything global about a distributed tensor: mesh, layout, shape, dtype.
// Two ranks with equal specs take equal decisions; local data is never consulted.
#pragma once

#include <cstddef>
#include <string>

#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/layout.h"
#include "placement/mesh.h"

namespace tessera TSR_API {

/// No tensor has more: offsets inside it, and sums of a few of them, fit 64 bits.
inline constexpr std::int64_t kMaxTensorBytes = std::int64_t{1} << 62;
/// Whether a tensor could be so large. Dims without elements count as of one: strides would wrap.
/// Errors: those of checked_num_elements(), and OutOfRange beyond kMaxTensorBytes.
Status check_tensor_size(ShapeView global_shape, DType dtype);

/// A value; canonical by construction.
class Spec {
 public:
  Spec() = default;
  /// Errors: those of decode() and check_tensor_size().
  static StatusOr<Spec> make(Mesh mesh, Shape global_shape, DType dtype,
                             std::span<const Placement> placements);
  static StatusOr<Spec> make(Mesh mesh, Shape global_shape, DType dtype, Layout layout);
  /// A plain tensor: the mesh of no axes.
  static Spec plain(Shape global_shape, DType dtype);

  const Mesh& mesh() const noexcept { return mesh_; }
  const Layout& layout() const noexcept { return layout_; }
  const Shape& global_shape() const noexcept { return global_shape_; }
  DType dtype() const noexcept { return dtype_; }
  int ndim() const noexcept { return static_cast<int>(global_shape_.size()); }
  std::int64_t global_bytes() const noexcept {
    return num_elements(global_shape_) * size_of(dtype_);
  }

  /// Errors: InvalidArgument where the layout has no placement list (see encode()).
  StatusOr<Placements> placements() const;
  Shape local_shape(const Coord& coord) const;
  bool has_partial() const noexcept;
  /// True if no axis cuts or is Partial: every rank holds the whole tensor.
  bool is_replicated() const noexcept { return layout_.is_replicated(); }

  Spec with_dtype(DType dtype) const;

  /// "F32[8, 6] (S(0), R) on {dp: 2, tp: 2}", with levels where there is no placement list.
  std::string to_string() const;
  std::size_t hash() const noexcept;
  bool operator==(const Spec&) const = default;

 private:
  Mesh mesh_;
  Layout layout_;
  Shape global_shape_;
  DType dtype_ = DType::kF32;
};

}  // namespace tessera
