// moe/layer/dispatch.h: the arithmetic of dispatching: which experts a rank holds, which tokens a
// chunk. Pure functions.
#pragma once

#include <cstdint>
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

/// An expert's rows with its pad rows.
std::int64_t padded_rows(std::int64_t rows, std::int64_t alignment);
/// Rows that are enough for `rows` of `num_experts` experts, each padded.
std::int64_t padded_bound(std::int64_t rows, std::int64_t num_experts, std::int64_t alignment);

}  // namespace tessera
