#include "kernels/pointwise_activation.h"

#include "kernels/host/pointwise_table.h"

namespace tessera::kernels {

std::span<const PointwiseCode> activation_functions() {
  static constexpr auto kCode = code_of<scalar::ActivationFunctions>();
  return kCode;
}

std::span<const PointwiseCode> activation_slopes() {
  static constexpr auto kCode = code_of<scalar::ActivationSlopes>();
  return kCode;
}

}  // namespace tessera::kernels
