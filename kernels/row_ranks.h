// kernels/row_ranks.h: which element of a sorted row is its median, and what the kernels of
// row_select.h ask of their operands, on every device.
#pragma once

#include "kernels/lines.h"
#include "kernels/row_select.h"

namespace tessera::kernels {

/// The rank of the median of n sorted elements, `numbers` of which are no NaN and come first.
TSR_HOST_DEVICE constexpr std::int64_t median_rank(NanRows nan, std::int64_t numbers,
                                                   std::int64_t n) {
  if (numbers == 0) return 0;
  if (nan == NanRows::kWin && numbers < n) return numbers;
  return (numbers - 1) / 2;
}

/// `kept`: the rows' shape. Errors: InvalidArgument.
inline void check_row_select(const Shape& kept, const Array& values, const Array& indices) {
  check_shape("row_select", "values", values, kept);
  check_shape("row_select", "indices", indices, kept);
}

}  // namespace tessera::kernels
