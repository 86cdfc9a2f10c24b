#include "placement/shape.h"

#include "absl/strings/str_format.h"

namespace tessera {

StatusOr<std::int64_t> checked_num_elements(ShapeView sizes) {
  if (sizes.size() > static_cast<std::size_t>(kMaxDims)) {
    return invalid_argument(absl::StrFormat("shape has %d dims; at most %d are allowed",
                                            static_cast<int>(sizes.size()), kMaxDims));
  }
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) {
      return invalid_argument(
          absl::StrFormat("shape %s has the negative size %d", to_string(sizes), size));
    }
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) {
      return out_of_range(
          absl::StrFormat("shape %s has more than 2^63 - 1 elements", to_string(sizes)));
    }
  }
  return product;
}

std::string to_string(ShapeView sizes) {
  std::string text = "[";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + "]";
}

StatusOr<int> normalize_dim(std::int64_t dim, int ndim) {
  if (dim >= -ndim && dim < ndim) return static_cast<int>(dim < 0 ? dim + ndim : dim);
  if (ndim == 0) {
    return invalid_argument(absl::StrFormat("dim %d is out of range: the tensor has no dims", dim));
  }
  return invalid_argument(
      absl::StrFormat("dim %d is out of range for a tensor of %d dims; allowed are %d to %d", dim,
                      ndim, -ndim, ndim - 1));
}

}  // namespace tessera
