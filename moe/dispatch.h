// moe/dispatch.h: the arithmetic of dispatching: which experts a rank holds, and in which order
// rows stand. Pure functions of counts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "placement/api.h"

namespace tessera TSR_API {

/// How many of `num_experts` each ep rank holds: chunks of the ceiling, the last short or empty (as
/// Shard cuts them).
std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, std::int64_t ep);

/// Tokens [begin, end) of one chunk: `chunks` nearly equal ones, in order.
struct TokenRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
TokenRange chunk_of(std::int64_t num_tokens, std::int64_t chunks, std::int64_t chunk);

/// Consecutive rows of a buffer.
struct RowBlock {
  std::int64_t begin = 0, rows = 0;
};

/// An order of rows: −1 in source_R is a row of zeros, −1 in restore_N a row that was left out.
struct RowOrder {
  std::vector<std::int64_t> source_R;   ///< row r comes from row source_R[r]
  std::vector<std::int64_t> restore_N;  ///< its inverse
  std::vector<std::int64_t> counts_e;   ///< rows per expert, pad rows included
};

/// What the ordered rows have to look like.
struct OrderedSize {
  std::int64_t alignment = 1;                 ///< each expert's rows are a multiple
  std::optional<std::int64_t> num_rows = {};  ///< in all; empty: as many as the experts have
  /// Of each expert, before alignment; empty: as many as it has. Requires that none has more.
  std::optional<std::int64_t> rows_per_expert = {};
};
/// From rank-major to expert-major rows of a buffer of `num_received`. `blocks` holds, for each
/// sender, where its rows of each expert lie.
RowOrder order_by_expert(std::span<const RowBlock> blocks, std::int64_t num_senders,
                         std::int64_t num_received, const OrderedSize& size = {});
/// The same for blocks that fill the buffer in turn. `counts` holds, for each sender, the rows per
/// local expert.
RowOrder expert_order(std::span<const std::int64_t> counts, std::int64_t num_senders);

/// Rows that are enough for `rows` of `num_experts` experts, each padded.
std::int64_t padded_bound(std::int64_t rows, std::int64_t num_experts, std::int64_t alignment);

}  // namespace tessera
