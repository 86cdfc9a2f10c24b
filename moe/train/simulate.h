// moe/train/simulate.h: one training step of one rank among any number of ranks that are not there:
// the same Trainer on the simulated backend, so that its events are those of a real run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "moe/train/data.h"
#include "moe/train/trainer.h"
#include "placement/api.h"
#include "placement/topology.h"
#include "program/program.h"

namespace tessera TSR_API {

struct SimulatedStep {
  std::vector<Event> events;    ///< of the step, in order, with who sends what to whom
  std::int64_t peak_bytes = 0;  ///< of arrays, parameters and optimizer states included
};

/// Which rank of how many, the type of computation, and how moves are priced.
struct SimulatedPlace {
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
  DType dtype = DType::kF32;
  /// What moves are planned by; none: as on one host.
  std::optional<Topology> topology = std::nullopt;
};

/// Rank `place.rank`'s first step under forced routing: with it, how many rows each rank gives an
/// expert follows from the numbers of its tokens, so that routing needs no rank but this one. No
/// floating values come from other ranks: losses and gradients mean nothing. Cost: time and memory
/// of one rank's step. Errors: InvalidArgument for degrees that do not fit, without force_balance
/// or forced_loads, with padding, with a capacity that drops rows, or for rows_bound where this
/// rank's rows exceed it.
StatusOr<SimulatedStep> simulate_step(const ModelConfig& config, const ParallelConfig& parallel,
                                      const SimulatedPlace& place, const TokenData& data);

/// What `simulate_step` does, as a Program of source "train": parameters, optimizer states and all
/// steps, none of them folded. Moves are those of its events; its routing is "balanced" or
/// "forced_loads". Errors: the same.
StatusOr<Program> trace_step(const ModelConfig& config, const ParallelConfig& parallel,
                             const SimulatedPlace& place, const TokenData& data);

/// This rank's first step, executed and then simulated: the first transfer or host read in which
/// the two differ, in the order in which they were begun, by name, place in the source, bytes or
/// peers. Empty where there is none. The executed step's events stay in the Runtime's log.
/// Collective: yes, over the world. Throws Error as Trainer::step() and simulate_step().
std::string difference_from_simulation(Runtime& runtime, const ModelConfig& config,
                                       const ParallelConfig& parallel, const TokenData& data,
                                       DType dtype);

}  // namespace tessera
