#include "kernels/pointwise_losses.h"
#include "kernels/pointwise_table.h"

namespace tessera::kernels {

std::span<const Pointwise> loss_functions() {
  static constexpr auto kTable = table_of<scalar::LossFunctions>();
  return kTable;
}

}  // namespace tessera::kernels
