#include "strategies/ops/reduce/moments.h"

#include "kernels/row_fold.h"
#include "strategies/ops/reduce/reduced.h"

namespace tessera::ops {

Array moments_over(KernelCall& call, const Array& x, const std::vector<int>& dims) {
  const Array rows = rows_of(call.ctx, x, dims);
  Shape shape = kept_shape(x.shape(), dims);
  shape.insert(shape.begin(), 3);
  const Array moments = scratch(call, shape, DType::kF64);
  kernels::row_moments(call.ctx, rows, moments);
  shape.insert(shape.begin(), 1);
  return moments.try_view(shape);
}

Array joined_moments(KernelCall& call, const Array& parts) {
  const Array whole =
      scratch(call, Shape(parts.shape().begin() + 1, parts.shape().end()), DType::kF64);
  kernels::combine_moments(call.ctx, parts, whole);
  return whole;
}

Array moment(const Array& moments, Moment which) {
  const auto at = static_cast<std::int64_t>(which);
  return moments.slice(0, at, at + 1)
      .try_view(Shape(moments.shape().begin() + 1, moments.shape().end()));
}

}  // namespace tessera::ops
