#include "kernels/host/pointwise_table.h"
#include "kernels/pointwise_losses.h"

namespace tessera::kernels {

std::span<const PointwiseCode> loss_functions() {
  static constexpr auto kCode = code_of<scalar::LossFunctions>();
  return kCode;
}

}  // namespace tessera::kernels
