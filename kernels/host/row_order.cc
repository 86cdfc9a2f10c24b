#include "kernels/host/row_order.h"

#include <vector>

namespace tessera::kernels {

Array by_row(KernelContext& ctx, const Array& positions_N, std::int64_t num_rows) {
  const std::int64_t count = positions_N.num_elements();
  const auto* position = positions_N.data<std::int64_t>();
  std::vector<std::int32_t> next(static_cast<std::size_t>(num_rows) + 2, 0);
  // Row r's entries begin where those of all rows below end; −1 comes before row 0.
  for (std::int64_t i = 0; i < count; ++i) ++next[static_cast<std::size_t>(position[i] + 2)];
  for (std::size_t r = 1; r < next.size(); ++r) next[r] += next[r - 1];
  Array order = Array::empty({count}, DType::kI32, ctx.allocator);
  auto* to = order.data<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    to[next[static_cast<std::size_t>(position[i] + 1)]++] = static_cast<std::int32_t>(i);
  }
  return order;
}

}  // namespace tessera::kernels
