#include "moe/routed_slots.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dtensor/ops.h"

namespace tessera {

DTensor index_tensor(Runtime& runtime, std::span<const std::int64_t> values) {
  const Array array = Array::empty({static_cast<std::int64_t>(values.size())}, DType::kI64,
                                   runtime.host_kernels().allocator);
  std::copy(values.begin(), values.end(), array.data<std::int64_t>());
  return plain(runtime, to_device(runtime.kernels(), array));
}

Indices values_of(const DTensor& x) {
  const Array values = to_host(x.local());
  const auto* first = values.data<std::int64_t>();
  return {first, first + values.num_elements()};
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

SortedSlots sort_slots(const DTensor& ids_TK, TokenRange tokens, std::int64_t num_experts) {
  const NoGrad no_grad(ids_TK.runtime());
  const DTensor ids =
      tokens.size() == ids_TK.size(0) ? ids_TK : slice(ids_TK, 0, tokens.begin, tokens.end);
  const auto [slots, counts] =
      sort_by_key(reshape(ids, {tokens.size() * ids_TK.size(1)}), num_experts + 1);
  SortedSlots sorted = {values_of(slots), values_of(counts)};
  sorted.counts_E.resize(static_cast<std::size_t>(num_experts));
  sorted.slots.resize(static_cast<std::size_t>(sum_of(sorted.counts_E)));
  return sorted;
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

RowPlaces places_of(Runtime& runtime, std::span<const std::int64_t> slot_N, std::int64_t num_slots,
                    std::int64_t top_k) {
  const Array places =
      Array::empty({num_slots / top_k, top_k}, DType::kI64, runtime.host_kernels().allocator);
  auto* place = places.data<std::int64_t>();
  std::fill_n(place, num_slots, -1);
  for (std::size_t row = 0; row < slot_N.size(); ++row) {
    if (slot_N[row] >= 0) place[slot_N[row]] = static_cast<std::int64_t>(row);
  }
  return {index_tensor(runtime, slot_N), plain(runtime, to_device(runtime.kernels(), places))};
}

void log_host_read(Runtime& runtime, std::string name, const Site& site) {
  const double now = runtime.world().now_us();
  runtime.events().add({.kind = Event::Kind::kHostRead,
                        .name = std::move(name),
                        .tensor = "counts_E",
                        .module = runtime.events().module(),
                        .file = site.file_name(),
                        .line = static_cast<int>(site.line()),
                        .start_us = now,
                        .end_us = now});
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
