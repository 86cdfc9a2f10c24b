#include "kernels/pointwise_pairs.h"

#include "kernels/host/pointwise_table.h"

namespace tessera::kernels {

std::span<const PointwiseCode> pair_functions() {
  static constexpr auto kCode = code_of<scalar::PairFunctions>();
  return kCode;
}

std::span<const PointwiseCode> pair_slopes() {
  static constexpr auto kCode = code_of<scalar::PairSlopes>();
  return kCode;
}

}  // namespace tessera::kernels
