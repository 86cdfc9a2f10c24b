// execute/own_moves.h: what ops talk among ranks inside of themselves, where a row of theirs has a
// lowering (a softmax over a cut dim): no plan says it, so that each rank's calls are simulated.
#pragma once

#include <cstdint>
#include <functional>

#include "execute/regions.h"
#include "placement/api.h"
#include "placement/status.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// Simulates every rank up to so many; of more ranks, the first one alone stands for all.
inline constexpr std::int64_t kMostSimulatedRanks = 64;

/// The program with CallStep::moves filled in where it has none: all of its steps run on shapes
/// alone, on ranks that are simulated. `add_ops`: ops beside the built-in ones. Errors: those of
/// ProgramRun::make() and run(). Cost: a run's time on one rank, without data, for each rank.
StatusOr<Program> with_own_moves(Program program,
                                 const std::function<Status(OpTable&)>& add_ops = nullptr);

}  // namespace tessera
