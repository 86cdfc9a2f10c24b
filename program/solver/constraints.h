// program/solver/constraints.h: which placements a value may have. Internal to program/solver/.
#pragma once

#include <string_view>
#include <vector>

#include "program/solver/propagate_program.h"

namespace tessera {

/// "*" stands for any text, also none.
bool matches_pattern(std::string_view pattern, std::string_view text) noexcept;

/// `module`: of the value, or of the step that makes it.
bool concerns(const PlacementConstraint& constraint, const ProgramValue& value,
              std::string_view module) noexcept;
/// True where the constraint says nothing about the spec's mesh.
bool allows(const PlacementConstraint& constraint, const Spec& spec);

}  // namespace tessera
