// placement/shape.h: sizes of tensor dims, and checked arithmetic on them.
// Shape also serves for strides and coords; up to six entries live inside the object.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

using Shape = absl::InlinedVector<std::int64_t, 6>;
using ShapeView = std::span<const std::int64_t>;

inline constexpr int kMaxDims = 64;

inline ShapeView view_of(const Shape& shape) { return {shape.data(), shape.size()}; }
inline Shape to_shape(ShapeView sizes) { return Shape(sizes.begin(), sizes.end()); }

/// Elements of a tensor of these sizes. Errors: OutOfRange beyond 2^63 - 1, InvalidArgument for a
/// negative size or more than kMaxDims dims.
StatusOr<std::int64_t> checked_num_elements(ShapeView sizes);
/// The same for sizes that were checked before.
constexpr std::int64_t num_elements(ShapeView sizes) noexcept {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}
inline std::int64_t num_elements(const Shape& shape) noexcept {
  return num_elements(view_of(shape));
}
/// "[4, 6]"
std::string to_string(ShapeView sizes);
inline std::string to_string(const Shape& shape) { return to_string(view_of(shape)); }

/// Dim `dim` of a tensor of `ndim` dims; negative counts from the end. Errors: InvalidArgument.
StatusOr<int> normalize_dim(std::int64_t dim, int ndim);

}  // namespace tessera
