#include "moe/layer/peer_step.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dtensor/ops.h"
#include "dtensor/recompute.h"
#include "kernels/peer_rows.h"

namespace tessera {
namespace {

/// Rows of a chunk that `rank` hands out for the experts of a position.
std::int64_t rows_for(const CountTable& counts, std::int64_t rank, std::int64_t chunk,
                      const ExpertRange& experts) {
  std::int64_t rows = 0;
  for (std::int64_t e = experts.begin; e < experts.end(); ++e) rows += counts.at(rank, chunk, e);
  return rows;
}
/// Of a buffer with the rows of these experts.
std::int64_t buffer_rows(const CountTable& counts, std::int64_t num_ranks, std::int64_t chunk,
                         const ExpertRange& experts, std::int64_t alignment) {
  std::int64_t rows = 0;
  for (std::int64_t e = experts.begin; e < experts.end(); ++e) {
    std::int64_t held = 0;
    for (std::int64_t rank = 0; rank < num_ranks; ++rank) held += counts.at(rank, chunk, e);
    rows += padded_rows(held, alignment);
  }
  return rows;
}

}  // namespace

void check_reach(Runtime& runtime, const std::string& layer, const AxisGroup& ranks) {
  const Communicator& group = *value_or_throw(runtime.world().group_along(ranks.mesh, ranks.axes));
  if (group.size() == 1 || group.reaches_peers()) return;
  const std::string why = group.why_unreached();
  throw Error(unimplemented(layer + ": the peer dispatcher writes to the memory of the " +
                            std::to_string(group.size()) +
                            " ranks that share experts, which this backend does not reach" +
                            (why.empty() ? "" : " (" + why + ")") +
                            "; allowed: the other "
                            "dispatchers, or ranks_per_node with no more ranks than do"));
}

CountTable gather_counts(Runtime& runtime, const PeerGroup& group,
                         std::span<const DTensor> by_chunk) {
  const DTensor own = joined({by_chunk.begin(), by_chunk.end()});
  const Indices sizes(static_cast<std::size_t>(group.num_ranks()), own.size(0));
  const RowMove move{.kind = RowMove::Kind::kAllGather, .group = group.ranks, .send = sizes};
  return {.received = kept_tensor(runtime, [&] { return move_rows(own, move); }),
          .chunks = std::ssize(by_chunk),
          .num_experts = sum_of(group.held)};
}

PeerStep peer_step(const PeerGroup& group, const PeerChunk& chunk, std::int64_t index,
                   const CountTable& counts, std::int64_t alignment, std::int64_t bound) {
  Runtime& runtime = counts.received.runtime();
  const std::int64_t num_experts = counts.num_experts, by_rank = num_experts * counts.chunks;
  const bool is_exact = !chunk.rows_per_expert && bound == 0;
  auto places = std::make_shared<PeerPlaces>();
  places->copies = group.etp;
  kernels::KeySize size{.alignment = alignment};
  std::int64_t room = kernels::kAnyNumber;
  if (chunk.rows_per_expert) {
    size.rows = *chunk.rows_per_expert;
  } else if (bound > 0) {
    // The same on every rank, which tell each other's rows from it.
    room = padded_bound(bound, group.held[0], alignment);
  }
  const ExpertRange own = experts_of(group.held, group.ep_rank);
  for (std::int64_t rank = 0; rank < group.num_ranks(); ++rank) {
    const ExpertRange theirs = experts_of(group.held, rank / group.etp);
    if (is_exact) {
      places->buffer_rows.push_back(
          buffer_rows(counts, group.num_ranks(), index, theirs, alignment));
      places->rows_of_tokens.push_back(rows_for(counts, group.own_rank(), index, theirs));
      places->rows_of_buffer.push_back(rows_for(counts, rank, index, own));
    } else {
      places->buffer_rows.push_back(
          chunk.rows_per_expert ? theirs.size * padded_rows(size.rows, alignment) : room);
    }
  }
  places->rows = places->buffer_rows[static_cast<std::size_t>(group.own_rank())];
  const DTensor place_S = empty_list(runtime, {chunk.rows * chunk.top_k}),
                counts_e = empty_list(runtime, {group.own()}),
                filled_e = empty_list(runtime, {group.own()}), came = empty_list(runtime, {1});
  const Array& table = counts.received.local();
  kernels::lay_out_peers(runtime.kernels(),
                         {.counts_PSE = table.as_strided({group.etp, group.ep, num_experts},
                                                         {by_rank, group.etp * by_rank, 1},
                                                         table.offset() + index * num_experts),
                          .sender = group.etp_rank * group.ep + group.ep_rank,
                          .experts_per_peer = std::max<std::int64_t>(group.held[0], 1),
                          .copies = group.etp,
                          .own = group.ep_rank,
                          .size = size,
                          .room = room},
                         chunk.sorted.slots.local(),
                         {place_S.local(), counts_e.local(), filled_e.local(), came.local()});
  places->place_TK = reshape(place_S, {chunk.rows, chunk.top_k});
  if (!is_exact || alignment > 1) {
    places->counts_e = counts_e;
    places->filled_e = filled_e;
  }
  return {.put = {.kind = RowMove::Kind::kPut, .group = group.ranks, .peers = std::move(places)},
          .counts_e = counts_e,
          .came = came};
}

}  // namespace tessera
