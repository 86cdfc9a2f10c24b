// program/product_flops.h: multiplications and additions of products and attention.
// Internal to program/.
#pragma once

#include <span>
#include <string_view>

#include "placement/shape.h"
#include "strategies/rules/attrs.h"

namespace tessera {

/// Of the whole of a call, two for each pair of elements multiplied; 0 for ops that are none.
/// `operands` are their shapes in the op's order.
double product_flops(std::string_view op, std::span<const Shape> operands, const Shape& result,
                     const Attrs& attrs);

}  // namespace tessera
