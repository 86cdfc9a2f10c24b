#include "kernels/pointwise_elementary.h"

#include "kernels/host/pointwise_table.h"

namespace tessera::kernels {

std::span<const PointwiseCode> elementary_functions() {
  static constexpr auto kCode = code_of<scalar::ElementaryFunctions>();
  return kCode;
}

std::span<const PointwiseCode> elementary_slopes() {
  static constexpr auto kCode = code_of<scalar::ElementarySlopes>();
  return kCode;
}

}  // namespace tessera::kernels
