// moe/routed_slots.h: routing slots sorted by expert, and lists of indices as plain tensors. For
// the dispatchers' sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/local_rows.h"
#include "moe/dispatcher.h"

namespace tessera {

using Indices = std::vector<std::int64_t>;

/// An I64 tensor of these values.
DTensor index_tensor(Runtime& runtime, std::span<const std::int64_t> values);
/// Blocks until the device has them.
Indices values_of(const DTensor& x);
std::int64_t sum_of(std::span<const std::int64_t> values);

/// Slots of one chunk by expert, in token order within each; those that go nowhere are left out.
/// Slots count from the chunk's first token.
struct SortedSlots {
  Indices slots;
  Indices counts_E;
};
SortedSlots sort_slots(const DTensor& ids_TK, TokenRange tokens, std::int64_t num_experts);

/// tokens.room, as far as the tokens of one of `chunks` can fill it.
std::optional<ExpertRoom> room_in_chunk(const RoutedTokens& tokens, std::int64_t chunks,
                                        std::int64_t chunk);

/// Places of `num_slots` slots of `top_k` a token, where row n holds slot_N[n] (−1: none).
RowPlaces places_of(Runtime& runtime, std::span<const std::int64_t> slot_N, std::int64_t num_slots,
                    std::int64_t top_k);

/// The point where counts decide the shapes of what follows: a CUDA build would copy them to the
/// host.
void log_host_read(Runtime& runtime, std::string name, const Site& site = Site::current());

/// This rank's position along axes of a mesh, row-major.
std::int64_t position_along(const Mesh& mesh, std::span<const int> axes, std::int64_t rank);

}  // namespace tessera
