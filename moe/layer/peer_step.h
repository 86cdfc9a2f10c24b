// moe/layer/peer_step.h: rows that go straight to their places in the memory of the ranks that hold
// their experts. For the dispatchers' sources.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/pending_rows.h"
#include "moe/layer/dispatcher.h"
#include "moe/layer/expert_blocks.h"
#include "moe/layer/routed_slots.h"

namespace tessera {

/// Ranks that reach each other's memory and share a set of experts: `ranks` are those of `ep`
/// positions times etp, ep first.
struct PeerGroup {
  AxisGroup ranks;
  std::int64_t ep = 1, etp = 1;
  std::int64_t ep_rank = 0, etp_rank = 0;  ///< this rank's position
  Indices held = {};                       ///< experts by position

  std::int64_t num_ranks() const { return ep * etp; }
  std::int64_t own_rank() const { return ep_rank * etp + etp_rank; }
  /// Experts of this rank.
  std::int64_t own() const { return held[static_cast<std::size_t>(ep_rank)]; }
};
/// Errors: throws Unimplemented where the ranks do not reach each other's memory, naming the layer.
void check_reach(Runtime& runtime, const std::string& layer, const AxisGroup& ranks);

/// One chunk of the rows that this rank hands out.
struct PeerChunk {
  SortedSlots sorted;     ///< by expert of the group
  std::int64_t rows = 0;  ///< its slots are row · top_k + k
  std::int64_t top_k = 1;
  std::optional<std::int64_t> rows_per_expert = {};  ///< see RoutedTokens::room
};
/// Collective: each rank's counts of the group's experts, chunk by chunk, known to all. A
/// recomputed pass sees the same.
CountTable gather_counts(Runtime& runtime, const PeerGroup& group,
                         std::span<const DTensor> by_chunk);

/// A chunk's way there; the way back is its reverse.
struct PeerStep {
  RowMove put;
  DTensor counts_e;  ///< rows of each of this rank's experts, pad rows included
  DTensor came;      ///< I64 (1): rows for this rank, pad rows excluded, with room or not
};
/// `bound`: rows that a chunk may bring a rank, pad rows excluded; 0: exact sizes, for which
/// counts.values are needed unless the chunk has rows_per_expert.
PeerStep peer_step(const PeerGroup& group, const PeerChunk& chunk, std::int64_t index,
                   const CountTable& counts, std::int64_t alignment, std::int64_t bound);

}  // namespace tessera
