// Shapes of slices that a tuple addresses, told without a device.
#include "kernels/index_tuple.h"

#include <algorithm>

namespace tessera::kernels {

int tuple_position(std::span<const int> dims) {
  for (std::size_t k = 1; k < dims.size(); ++k) {
    if (dims[k] != dims[k - 1] + 1) return 0;
  }
  return dims.empty() ? 0 : dims[0];
}

Shape tuple_shape(const Shape& x, std::span<const int> dims, const Shape& index_shape) {
  const auto position = static_cast<std::size_t>(tuple_position(dims));
  Shape shape;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool addressed = std::find(dims.begin(), dims.end(), static_cast<int>(d)) != dims.end();
    if (!addressed) shape.push_back(x[d]);
  }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(position), index_shape.begin(),
               index_shape.end());
  return shape;
}

}  // namespace tessera::kernels
