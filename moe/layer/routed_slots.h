// moe/layer/routed_slots.h: routing slots sorted by expert, and the lists by which their rows
// travel, as plain tensors that never leave their device. For the dispatchers' sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/local_rows.h"
#include "kernels/row_lists.h"
#include "moe/layer/dispatcher.h"

namespace tessera {

using Indices = std::vector<std::int64_t>;

std::int64_t sum_of(std::span<const std::int64_t> values);

/// A dense I64 tensor for a kernel to fill.
DTensor empty_list(Runtime& runtime, const Shape& shape);
/// Lists of this rank, one behind another.
DTensor joined(const std::vector<DTensor>& lists);
/// The first `count` of a list.
DTensor first_of(const DTensor& list, std::int64_t count);

/// Counts that the sizes of an exact pass need, on the host, by the one read that it does; a
/// recomputed pass must see the same.
std::vector<Indices> read_counts(Runtime& runtime, std::span<const DTensor> lists);

/// Slots in order of a key, equal ones in their own order, then those that go nowhere.
struct SortedSlots {
  DTensor slots;
  DTensor counts_K;
};
/// Those of `keys` (dense), of which num_keys go nowhere.
SortedSlots sort_keys(const DTensor& keys, std::int64_t num_keys);
/// Those of a chunk by expert; they count from its first token.
SortedSlots sort_slots(const DTensor& ids_TK, TokenRange tokens, std::int64_t num_experts);

/// list_N[index_N]
DTensor picked(const DTensor& list_N, const DTensor& index_N);
/// kernels::pack_parts().
DTensor packed(const SortedSlots& sorted, const kernels::PartRooms& rooms);
/// Rows that the fullest of the parts would need, of one element.
DTensor fullest(const DTensor& counts_K, std::int64_t parts, std::int64_t keys_per_part);

/// tokens.room, as far as the tokens of one of `chunks` can fill it.
std::optional<ExpertRoom> room_in_chunk(const RoutedTokens& tokens, std::int64_t chunks,
                                        std::int64_t chunk);

/// Places of `num_slots` slots of `top_k` a token, where row n holds slot_N[n] (−1: none).
RowPlaces places_of(const DTensor& slot_N, std::int64_t num_slots, std::int64_t top_k);

/// This rank's position along axes of a mesh, row-major.
std::int64_t position_along(const Mesh& mesh, std::span<const int> axes, std::int64_t rank);

}  // namespace tessera
