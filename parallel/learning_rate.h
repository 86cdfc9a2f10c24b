// parallel/learning_rate.h: the learning rate of each step: warm-up, stable, decay (WSD).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "placement/api.h"

namespace tessera TSR_API {

/// How the rate falls over the decay, by the part p of it that is done.
enum class DecayShape : std::uint8_t {
  kLinear,  ///< 1 − p
  kSqrt,    ///< 1 − √p
  kCosine   ///< (1 + cos πp) / 2
};

/// Rises linearly to `base` over `warmup` steps, stays, and falls to min_factor·base over the last
/// round(decay_ratio·steps) of them. Source: torchtitan LRSchedulersContainer.
struct LearningRate {
  double base = 0.0;
  std::int64_t steps = 1;
  std::int64_t warmup = 0;
  double decay_ratio = 0.0;
  DecayShape shape = DecayShape::kLinear;
  double min_factor = 0.0;

  /// The rate used in step `step` (from 0).
  double at(std::int64_t step) const;
  /// What at() cuts short because warm-up and decay do not fit into `steps`: a line for the user.
  std::optional<std::string> warning() const;
};

}  // namespace tessera
