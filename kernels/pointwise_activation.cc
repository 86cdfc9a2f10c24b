#include "kernels/pointwise_activation.h"

#include "kernels/pointwise_table.h"

namespace tessera::kernels {

std::span<const Pointwise> activation_functions() {
  static constexpr auto kTable = table_of<scalar::ActivationFunctions>();
  return kTable;
}

std::span<const Pointwise> activation_slopes() {
  static constexpr auto kTable = table_of<scalar::ActivationSlopes>();
  return kTable;
}

}  // namespace tessera::kernels
