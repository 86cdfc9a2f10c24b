#include "kernels/pointwise_integers.h"

#include "kernels/pointwise_table.h"

namespace tessera::kernels {

std::span<const Pointwise> integer_functions() {
  static constexpr auto kTable = table_of<scalar::IntegerFunctions>();
  return kTable;
}

}  // namespace tessera::kernels
