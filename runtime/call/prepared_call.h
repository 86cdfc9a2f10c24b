// runtime/call/prepared_call.h: a collective call before it meets its peers': defaults are filled
// in and the arrays checked on this rank alone, and what it will move is known. All backends use
// these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/all_reduce_parts.h"
#include "placement/api.h"
#include "runtime/call/communicator.h"

namespace tessera TSR_API {

/// This rank's place in a group, for checks and texts.
struct GroupPlace {
  int rank = 0;
  int size = 1;
};

/// Fills in default splits and the divisor, then checks that the arrays fit the call. Errors:
/// InvalidArgument.
Status prepare(CollectiveCall& call, const GroupPlace& place);
/// Where the arrays of a prepared call lie; the processor where it has none.
Device& device_of(const CollectiveCall& call);

/// Requires a prepared call's part.
DType dtype_of(const ExchangePart& part) noexcept;
/// Blocks until whoever writes the call's arrays is done.
void wait_ready(const CollectiveCall& call);
/// The call has written its arrays.
void mark_written(const CollectiveCall& call);

/// Bytes that a prepared call takes to and from other ranks. Units: bytes.
struct Traffic {
  std::int64_t sent = 0;
  std::int64_t received = 0;
};
Traffic traffic_of(const CollectiveCall& call, const GroupPlace& place);
Shape row_shape(const Array& array);
/// Units: bytes of one row (an index of dim 0).
std::int64_t row_bytes(const Array& array);
/// Rows of a kPeerRows call by group rank, as its caller states them or, where it does not, evenly.
struct PeerRowCounts {
  std::vector<std::int64_t> of_tokens, of_buffer;
};
PeerRowCounts peer_row_counts(const CollectiveCall& call, const GroupPlace& place);
/// The array that others read or write.
const Array& peer_buffer(const CollectiveCall& call) noexcept;
/// This rank's tokens, or their sums.
const Array& peer_tokens(const CollectiveCall& call) noexcept;
std::int64_t sum_before(std::span<const std::int64_t> splits, int rank);

/// Elements [begin, end) of `n` that group rank `rank` folds in an all_reduce; borders fall on
/// cache lines.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Slice slice_of(std::int64_t n, const GroupPlace& place) noexcept;
/// Small all_reduces: every rank folds the whole instead of its slice.
constexpr std::int64_t kFoldAllBytes = kFoldWholeBytes;

}  // namespace tessera
