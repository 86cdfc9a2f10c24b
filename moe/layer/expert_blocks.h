// moe/layer/expert_blocks.h: which experts ranks hold, and how the rows that senders bring them are
// put in order. For the dispatchers' sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "moe/layer/dispatch.h"
#include "moe/layer/routed_slots.h"

namespace tessera {

/// Experts [begin, begin + size).
struct ExpertRange {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
};
/// Those of `num_ranks` ranks from `first` on, where `held` is experts_by_rank().
ExpertRange experts_of(std::span<const std::int64_t> held, std::int64_t first,
                       std::int64_t num_ranks = 1);

/// From the order of a buffer to that of experts, and back.
struct ExpertOrder {
  DTensor source_R = {};   ///< row r comes from row source_R[r]; −1: of zeros
  DTensor restore_N = {};  ///< its inverse; −1: left out
  DTensor counts_e;        ///< rows of each expert, pad rows included
};

/// Counts of rows by rank, chunk and expert, as ranks that share one set of experts tell each
/// other.
struct CountTable {
  DTensor received = {};  ///< flat
  Indices values = {};    ///< the same on the host; empty where sizes are fixed
  std::int64_t chunks = 1;
  std::int64_t num_experts = 0;

  std::int64_t at(std::int64_t rank, std::int64_t chunk, std::int64_t expert) const {
    return values[static_cast<std::size_t>((rank * chunks + chunk) * num_experts + expert)];
  }
  /// Of all experts.
  std::int64_t rows(std::int64_t rank, std::int64_t chunk) const;
};
/// How the rows of one chunk come: from each etp rank those of its ep ranks, in turn.
struct Arrival {
  const CountTable& counts;
  std::int64_t chunk = 0;
  std::int64_t ep = 1, etp = 1;
  std::optional<std::int64_t> room = {};  ///< of each sender's part; empty: as many as it has

  std::int64_t rank_at(std::int64_t ep_rank, std::int64_t etp_rank) const {
    return ep_rank * etp + etp_rank;
  }
  std::int64_t rows_of(std::int64_t rank) const { return room ? *room : counts.rows(rank, chunk); }
  /// By etp rank.
  Indices rows_by_etp() const;
};
/// What the ordered rows have to look like.
struct OrderedSize {
  std::int64_t alignment = 1;  ///< each expert's rows are a multiple
  /// Of each expert, before alignment; empty: as many as it has. Requires that none has more.
  std::optional<std::int64_t> rows_per_expert = {};
};
ExpertOrder expert_order_of(const Arrival& arrival, const OrderedSize& size);

/// What each rank is told of its rows: for each of `by_rank` in turn, for each chunk, the counts of
/// that range of keys.
DTensor counts_to_send(std::span<const DTensor> counts_by_chunk,
                       std::span<const ExpertRange> by_rank);

}  // namespace tessera
