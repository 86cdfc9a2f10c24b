#include "kernels/pointwise_elementary.h"

#include "kernels/pointwise_table.h"

namespace tessera::kernels {

std::span<const Pointwise> elementary_functions() {
  static constexpr auto kTable = table_of<scalar::ElementaryFunctions>();
  return kTable;
}

std::span<const Pointwise> elementary_slopes() {
  static constexpr auto kTable = table_of<scalar::ElementarySlopes>();
  return kTable;
}

}  // namespace tessera::kernels
