// program/stablehlo/dot_dims.h: which dims of a product's operands meet. Internal to
// program/stablehlo/.
#pragma once

#include <vector>

#include "program/stablehlo/mlir_statement.h"

namespace tessera::stablehlo {

struct DotDims {
  std::vector<std::int64_t> left_batch, right_batch, left_contracting, right_contracting;
};

/// Of stablehlo.dot and stablehlo.dot_general, of operands of so many dims. Errors: InvalidArgument
/// for dims that are not there, or stand twice.
StatusOr<DotDims> read_dot_dims(const MlirText& text, const Statement& statement,
                                std::size_t left_ndim, std::size_t right_ndim);

/// What stands in #stablehlo.gather<…> and the like.
Nodes inside_of_angles(Nodes attribute);

}  // namespace tessera::stablehlo
