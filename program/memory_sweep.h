// program/memory_sweep.h: the bytes that each class of ranks holds, step by step. Internal to
// program/.
#pragma once

#include <functional>
#include <vector>

#include "program/memory_ranks.h"
#include "program/memory_rounds.h"

namespace tessera {

/// Of one class of ranks.
struct MemoryTrack {
  std::int64_t peak_position = -1;  ///< in FollowedSteps::written; −1: before the first step
  MemoryPoint start, peak, end;
  std::vector<std::int64_t> peak_rounds;
  std::vector<MemoryPoint> timeline;
};

/// By class. Errors: OutOfRange beyond 2^63 bytes.
StatusOr<std::vector<MemoryTrack>> sweep(const Script& script, const FollowedSteps& steps,
                                         const RankClasses& ranks);

/// Calls `see` with the number of values that are held of each name, at the positions given
/// (ascending). Requires what sweep() accepts.
void visit_held(const Script& script, const FollowedSteps& steps, const RankClasses& ranks,
                const std::vector<std::int64_t>& positions,
                const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>& see);

}  // namespace tessera
