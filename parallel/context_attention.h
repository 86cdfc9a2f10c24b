// parallel/context_attention.h: attention whose queries are cut over cp: keys and values gathered,
// or rotated around the ring of cp ranks.
#pragma once

#include "dtensor/ops.h"
#include "parallel/mesh_views.h"
#include "parallel/ring_attention.h"
#include "parallel/token_order.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct ContextAttention {
  int cp_axis = 0;  ///< of the operands' mesh
  ContextMethod method = ContextMethod::kAllGather;
  TokenOrder order = TokenOrder(0);
  AttentionArgs args;
};

/// Shapes: q, k (B, H, L, E), v (B, H, L, V) → (B, H, L, V), all placed alike, L cut over cp, its
/// places in `order`. Collective along cp: kAllGather one gather of k and v together, and the
/// reduce-scatter of their cotangents; kRing see ring_attention(). Errors: InvalidArgument for
/// placements that differ or do not cut L over cp.
DTensor context_attention(const DTensor& q, const DTensor& k, const DTensor& v,
                          const ContextAttention& context, const Site& site = Site::current());

}  // namespace tessera
