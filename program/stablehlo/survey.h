// program/stablehlo/survey.h: what the operations of a region come to, on one rank: the flops of
// its products and what its collectives move. For bodies of local tensors and of branches, which
// are no steps of their own. Internal to program/stablehlo/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "placement/checked_int.h"
#include "program/stablehlo/builder.h"

namespace tessera::stablehlo {

struct Survey {
  CheckedInt flops = 0;  ///< two for each pair of elements that a product multiplies
  std::vector<ProgramMove> moves;
  std::vector<std::string> warnings;  ///< what is not counted, each once

  void warn(const std::string& warning);
  std::string warning() const;
};

/// What one collective moves, in all its groups; none: the operation is no collective. `mesh`:
/// whose axes its groups lie along. Errors: InvalidArgument for groups that do not read.
StatusOr<std::optional<ProgramMove>> move_of(const Builder& builder, const Statement& statement,
                                             std::optional<int> mesh, Survey& survey);

/// Adds the operations from `body` on, those of functions that they call too. Errors: those of
/// next_statement(), move_of() and Builder::count(); InvalidArgument beyond kMaxBrackets in one
/// another.
Status survey_region(Builder& builder, std::size_t body, std::optional<int> mesh, int depth,
                     Survey& survey);

}  // namespace tessera::stablehlo
