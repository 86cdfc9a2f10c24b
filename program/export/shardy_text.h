// program/export/shardy_text.h: a placed program as a module of StableHLO with Shardy's shardings:
// its meshes, every value's sharding, every redistribution as a constraint.
#pragma once

#include <string>
#include <vector>

#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

struct ShardyText {
  std::string text;
  /// Values whose placements Shardy has no words for, each with the reason: their sharding is left
  /// out.
  std::vector<std::string> unsaid;
};

/// What is there before the first step are the arguments of @main; calls and regions are
/// `stablehlo.custom_call`s named as they are, with their attributes as JSON; redistributions are
/// `sdy.sharding_constraint`s; sums that are outstanding are unreduced axes. Repeats are written
/// out. program_of_stablehlo() reads the same placements from it, and jax's parser takes it. Values
/// are named as in the program, but for characters that MLIR does not take. Errors:
/// FailedPrecondition for a value without placements; those of unfold(). Cost: O(steps of all
/// rounds).
StatusOr<ShardyText> shardy_of(const Program& program);

}  // namespace tessera
