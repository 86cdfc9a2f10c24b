// parallel/ring_attention.h: attention of a rank's queries over the keys of every rank of a group.
// Keys and values travel around the ring while the block at hand is worked on.
#pragma once

#include "dtensor/local_map.h"
#include "dtensor/ops.h"
#include "parallel/token_order.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct AttentionArgs {
  double scale = 1.0;
  bool causal = true;
};
struct RingAttention {
  AxisGroup group;  ///< one axis
  TokenOrder order;
  AttentionArgs args;
};

/// Inside a region, on this rank's part of each sequence. Results over one block of keys after the
/// other are joined by their log-sums, in the accumulation type; blocks that no query sees are
/// passed on unread. Backward: blocks go around once more, their scores are computed again, and
/// their gradients go around with them, in the accumulation type.
/// Shapes: q (B, H, L, E), k (B, H, L, E), v (B, H, L, V) → (B, H, L, V), L this rank's places.
/// Collective: forward cp − 1 sends and receives of (B, H, L, E + V), backward those and cp of the
/// gradients; each is begun before the work on a block and waited for after it.
DTensor ring_attention(const DTensor& q, const DTensor& k, const DTensor& v,
                       const RingAttention& ring, const Site& site = Site::current());

}  // namespace tessera
