// strategies/ops/product/product.h: what the definitions of matrix products share.
#pragma once

#include <string_view>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// An alias with a dim of size 1 at `dim` of the result.
Array with_unit_dim(const Array& x, int dim);
/// The last two dims swapped.
Var transposed(GradContext& context, Var value);
/// Times a factor; the value itself where it is 1.
Var scaled(GradContext& context, Var value, double factor);
/// promote_operands(); integers have no product kernel. Errors: InvalidArgument.
StatusOr<DType> product_dtype(std::span<const TensorMeta> inputs);
/// The same where operands `first` and `first` + 1 meet in the kernel of matrix products, which
/// takes factors of one dtype and gives that, or F32 of BF16 and F16. Errors: InvalidArgument.
StatusOr<DType> matmul_dtype(std::span<const TensorMeta> inputs, std::size_t first);
/// "self [4, 3] and other [2, 5]: <wanted>"
Status shapes_differ(std::string_view name_a, const Shape& a, std::string_view name_b,
                     const Shape& b, std::string_view wanted);

}  // namespace tessera::ops
