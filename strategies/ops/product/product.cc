#include "strategies/ops/product/product.h"

#include <string>
#include <vector>

#include "strategies/ops/schema.h"

namespace tessera::ops {

Array with_unit_dim(const Array& x, int dim) {
  Shape shape = x.shape();
  Shape strides = x.strides();
  shape.insert(shape.begin() + dim, 1);
  strides.insert(strides.begin() + dim, 1);
  return x.as_strided(shape, strides, x.offset());
}

Var transposed(GradContext& c, Var value) {
  return c.call("transpose", {value}, {{"dim0", std::int64_t{-2}}, {"dim1", std::int64_t{-1}}});
}

Var scaled(GradContext& c, Var value, double factor) {
  return factor == 1.0 ? value : c.call("mul_scalar", {value}, {{"value", factor}});
}

StatusOr<DType> product_dtype(std::span<const TensorMeta> inputs) {
  const DType dtype = promote_operands(inputs);
  if (is_floating(dtype)) return dtype;
  return invalid_argument("dtype " + std::string(name_of(dtype)) +
                          " where a floating type is needed; cast with `to` first");
}

StatusOr<DType> matmul_dtype(std::span<const TensorMeta> inputs, std::size_t first) {
  TSR_ASSIGN_OR_RETURN(const DType result, product_dtype(inputs));
  const DType a = inputs[first].dtype, b = inputs[first + 1].dtype;
  if (a == b && (a == result || (is_half(a) && result == DType::kF32))) return result;
  return invalid_argument("factors " + std::string(name_of(a)) + " and " + std::string(name_of(b)) +
                          ", result " + std::string(name_of(result)) +
                          ": the factors must be of one floating dtype, and the result of it, or "
                          "F32 for BF16 and F16; cast with `to` first");
}

Status shapes_differ(std::string_view name_a, const Shape& a, std::string_view name_b,
                     const Shape& b, std::string_view wanted) {
  return invalid_argument(std::string(name_a) + " " + to_string(a) + " and " + std::string(name_b) +
                          " " + to_string(b) + ": " + std::string(wanted));
}

}  // namespace tessera::ops
