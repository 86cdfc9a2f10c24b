// program/export/value_groups.h: values of equal layers as one: those that are alike but for
// numbers in their names and modules.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// A group has one maker, shape, dtype, mesh, layout and role.
struct ValueGroup {
  std::string name;     ///< "layers.*.wq" of several, else its own
  std::string module;   ///< likewise
  std::string made_by;  ///< an op, a region, or the role of what is there before the first step
  std::string why;      ///< the row of the op's rule; of what no op makes, which op reads it
  std::int64_t count = 1;
  ProgramValue first;
  std::int64_t held_bytes = 0;  ///< of one, on the rank of its mesh with most
  /// Redistributions of all of them: what the steps that make them had to wait for, and what
  /// is made of them. Bytes are those of the rank with most in each, added up.
  std::vector<ProgramMove> in, out;
};

/// In the order of the first of each; results of redistributions belong to what they were made of.
/// Errors: FailedPrecondition for a value without placements; those of unfold() and moves_of().
/// Cost: O(steps of all rounds), a plan for each redistribution that does not say its moves.
StatusOr<std::vector<ValueGroup>> value_groups(const Program& program);

}  // namespace tessera
