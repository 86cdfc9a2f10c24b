// tests/device/index_twins.h: random indices for the tests of index kernels.
#pragma once

#include "kernels/index.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {

inline constexpr DType kIndexTypes[] = {DType::kI64, DType::kI32};

/// An index into a dim of `size`; -1 among it where `absent` allows that. Now and then, or where
/// nothing else is left, some lie outside.
inline Twins index_into(TwinMaker& make, const Shape& shape, std::int64_t size,
                        kernels::Absent absent, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  const std::int64_t low = absent == kernels::Absent::kSkip && make.number(0, 2) > 0 ? -1 : 0;
  const std::int64_t high = make.number(0, 3) == 0 ? std::min<std::int64_t>(size - 1, 2) : size - 1;
  for (double& value : values) {
    value = static_cast<double>(make.number(low, std::max(low, high)));
  }
  if (!values.empty() && make.number(0, 12) == 0) {
    const auto last = std::ssize(values) - 1;
    values[static_cast<std::size_t>(make.number(0, last))] = static_cast<double>(size);
    values[static_cast<std::size_t>(make.number(0, last))] = -2;
  }
  return make.of(Array::from_values(shape, dtype, values));
}

/// The same, perhaps as a transposed view or the same on all lines along `dim`.
inline Twins index_view(TwinMaker& make, const Shape& shape, int dim, std::int64_t size,
                        kernels::Absent absent, DType dtype) {
  const auto d = static_cast<std::size_t>(dim);
  if (make.number(0, 2) == 0) {
    const Twins line = index_into(make, {shape[d]}, size, absent, dtype);
    Shape strides(shape.size(), 0);
    strides[d] = 1;
    return {line.host.as_strided(shape, strides, 0), line.device.as_strided(shape, strides, 0)};
  }
  const auto other = static_cast<int>(make.number(0, std::ssize(shape) - 1));
  Shape turned = shape;
  std::swap(turned[d], turned[static_cast<std::size_t>(other)]);
  const Twins whole = index_into(make, turned, size, absent, dtype);
  return {whole.host.transpose(dim, other), whole.device.transpose(dim, other)};
}

/// Up to 3 dims, at least one; the one in front long now and then.
inline Shape indexed_shape(TwinMaker& make) {
  Shape shape(static_cast<std::size_t>(make.number(1, 3)));
  for (std::int64_t& size : shape) size = make.number(0, 20) == 0 ? 0 : make.number(1, 9);
  return shape;
}

inline kernels::Absent any_absent(TwinMaker& make) {
  return make.number(0, 1) == 0 ? kernels::Absent::kError : kernels::Absent::kSkip;
}

}  // namespace tessera::testing
