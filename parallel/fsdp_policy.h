// parallel/fsdp_policy.h: what a user chooses about FSDP units.
#pragma once

#include <cstdint>

#include "placement/api.h"

namespace tessera TSR_API {

/// Whether a unit's gathered parameters are given back after its forward pass, to be gathered again
/// for its backward pass.
enum class ReshardAfterForward : std::uint8_t {
  kDefault,  ///< yes without pp, but for the last unit, whose backward pass comes at once; no with
             ///< pp
  kAlways,
  kNever  ///< gathered once a step, for all its micro-batches
};

/// Where a step's gradients wait for one another.
enum class GradientPolicy : std::uint8_t {
  kEachMicroBatch,  ///< reduced with every backward pass: shards add up
  kLastMicroBatch   ///< summands add up at the used size, and are reduced once
};

/// Whether the next unit is gathered while the present one computes.
enum class Prefetch : std::uint8_t { kNext, kOff };

struct FsdpPolicy {
  ReshardAfterForward reshard = ReshardAfterForward::kDefault;
  GradientPolicy gradients = GradientPolicy::kEachMicroBatch;
  Prefetch prefetch = Prefetch::kNext;
  bool operator==(const FsdpPolicy&) const = default;
};

}  // namespace tessera
