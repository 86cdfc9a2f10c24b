#include "kernels/pointwise_pairs.h"

#include "kernels/pointwise_table.h"

namespace tessera::kernels {

std::span<const Pointwise> pair_functions() {
  static constexpr auto kTable = table_of<scalar::PairFunctions>();
  return kTable;
}

std::span<const Pointwise> pair_slopes() {
  static constexpr auto kTable = table_of<scalar::PairSlopes>();
  return kTable;
}

}  // namespace tessera::kernels
