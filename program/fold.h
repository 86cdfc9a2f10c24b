// program/fold.h: a flat program written shorter: runs of equal steps, such as those of equal
// layers, become repeats. unfold() writes them out again.
#pragma once

#include <cstdint>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

struct FoldOptions {
  std::int64_t least_saved = 8;  ///< steps that a repeat has to save
};

/// The same steps with repeats: unfold() of it is `program` but for names of what steps make.
/// Rounds are numbered as the modules or values in them are ("layers.32" …), and read what other
/// rounds made by its own name. Repeats that `program` has stay as they are, and none is made of
/// them. Cost: nearly linear in the number of steps.
Program fold(const Program& program, const FoldOptions& options = {});

}  // namespace tessera
