#include "kernels/pointwise_integers.h"

#include "kernels/host/pointwise_table.h"

namespace tessera::kernels {

std::span<const PointwiseCode> integer_functions() {
  static constexpr auto kCode = code_of<scalar::IntegerFunctions>();
  return kCode;
}

}  // namespace tessera::kernels
