#include "moe/layer/routed_slots.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "dtensor/host_read.h"
#include "dtensor/ops.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"

namespace tessera {

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

DTensor empty_list(Runtime& runtime, const Shape& shape) {
  return plain(runtime, Array::empty(shape, DType::kI64, runtime.kernels().allocator));
}

DTensor joined(const std::vector<DTensor>& lists) {
  return lists.size() == 1 ? lists[0] : cat(lists, 0);
}

DTensor first_of(const DTensor& list, std::int64_t count) {
  return count == list.size(0) ? list : slice(list, 0, 0, count);
}

std::vector<Indices> read_counts(Runtime& runtime, std::span<const DTensor> lists) {
  const Indices values = kept_values(runtime, [&] {
    return read_lists(runtime, lists, {.why = "moe.dispatch.counts", .tensor = "counts_E"});
  });
  std::vector<Indices> counts;
  auto next = values.begin();
  for (const DTensor& list : lists) {
    const auto begin = next;
    next += list.size(0);
    counts.emplace_back(begin, next);
  }
  return counts;
}

SortedSlots sort_keys(const DTensor& keys, std::int64_t num_keys) {
  const auto [slots, counts] =
      sort_by_key(reshape(keys, {num_elements(keys.global_shape())}), num_keys + 1);
  return {slots, first_of(counts, num_keys)};
}

SortedSlots sort_slots(const DTensor& ids_TK, TokenRange tokens, std::int64_t num_experts) {
  return sort_keys(
      tokens.size() == ids_TK.size(0) ? ids_TK : slice(ids_TK, 0, tokens.begin, tokens.end),
      num_experts);
}

DTensor picked(const DTensor& list_N, const DTensor& index_N) {
  return index_select(list_N, 0, index_N);
}

DTensor packed(const SortedSlots& sorted, const kernels::PartRooms& rooms) {
  Runtime& runtime = sorted.slots.runtime();
  DTensor rows = empty_list(runtime, {rooms.total()});
  kernels::pack_parts(runtime.kernels(), sorted.slots.local(), sorted.counts_K.local(), rooms,
                      rows.local());
  return rows;
}

DTensor fullest(const DTensor& counts_K, std::int64_t parts, std::int64_t keys_per_part) {
  Runtime& runtime = counts_K.runtime();
  const std::int64_t missing = parts * keys_per_part - counts_K.size(0);
  DTensor counts = counts_K;
  if (missing > 0) {
    const DTensor none = empty_list(runtime, {missing});
    kernels::fill(runtime.kernels(), 0, none.local());
    counts = cat(std::array{counts_K, none}, 0);
  }
  return amax(sum(reshape(counts, {parts, keys_per_part}), {1}), {0}, KeepDim::kYes);
}

std::optional<ExpertRoom> room_in_chunk(const RoutedTokens& tokens, std::int64_t chunks,
                                        std::int64_t chunk) {
  if (!tokens.room) return std::nullopt;
  ExpertRoom in_chunk;  // a token has at most one row for an expert
  for (const std::int64_t held : tokens.tokens_by_rank) {
    const std::int64_t own = chunk_of(held, chunks, chunk).size();
    in_chunk.of_sender = std::max(in_chunk.of_sender, own);
    in_chunk.of_group += own;
  }
  return ExpertRoom{std::min(in_chunk.of_sender, tokens.room->of_sender),
                    std::min(in_chunk.of_group, tokens.room->of_group)};
}

RowPlaces places_of(const DTensor& slot_N, std::int64_t num_slots, std::int64_t top_k) {
  Runtime& runtime = slot_N.runtime();
  DTensor places = empty_list(runtime, {num_slots / top_k, top_k});
  const Array flat = places.local().try_view({num_slots});
  kernels::invert_list(runtime.kernels(), slot_N.local(), flat);
  return {slot_N, places};
}

std::int64_t position_along(const Mesh& mesh, std::span<const int> axes, std::int64_t rank) {
  const auto coord = *mesh.coord_of(rank);
  std::int64_t position = 0;
  for (const int axis : axes) {
    position = position * mesh.size(axis) + coord[static_cast<std::size_t>(axis)];
  }
  return position;
}

}  // namespace tessera
