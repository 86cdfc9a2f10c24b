#include "moe/peer_step.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "dtensor/ops.h"
#include "dtensor/recompute.h"
#include "kernels/peer_rows.h"

namespace tessera {
namespace {

/// The counts on the host, as one chunk's layout reads them.
class HostCounts {
 public:
  HostCounts(const PeerGroup& group, const PeerCounts& counts, std::int64_t chunk)
      : group_(group), counts_(counts), chunk_(chunk) {}

  /// Rows that `rank` hands out for the experts of a position.
  std::int64_t rows(std::int64_t rank, std::int64_t ep_rank) const {
    const ExpertRange experts = experts_of(group_.held, ep_rank);
    std::int64_t rows = 0;
    for (std::int64_t e = experts.begin; e < experts.end(); ++e) rows += at(rank, e);
    return rows;
  }
  /// Of this rank's buffer.
  std::int64_t buffer_rows(std::int64_t alignment) const {
    const ExpertRange experts = experts_of(group_.held, group_.ep_rank);
    std::int64_t rows = 0;
    for (std::int64_t e = experts.begin; e < experts.end(); ++e) {
      std::int64_t held = 0;
      for (std::int64_t rank = 0; rank < group_.ep * group_.etp; ++rank) held += at(rank, e);
      rows += padded_rows(held, alignment);
    }
    return rows;
  }

 private:
  std::int64_t at(std::int64_t rank, std::int64_t expert) const {
    return counts_.values[static_cast<std::size_t>(
        (rank * counts_.chunks + chunk_) * group_.num_experts() + expert)];
  }

  const PeerGroup& group_;
  const PeerCounts& counts_;
  std::int64_t chunk_;
};

}  // namespace

void check_reach(Runtime& runtime, const std::string& layer, const AxisGroup& ranks) {
  const Communicator& group = *value_or_throw(runtime.world().group_along(ranks.mesh, ranks.axes));
  if (group.size() == 1 || group.reaches_peers()) return;
  throw Error(unimplemented(
      layer + ": the peer dispatcher writes to the memory of the " + std::to_string(group.size()) +
      " ranks that share experts, which this backend does not reach; allowed: the other "
      "dispatchers, or ranks_per_node with no more ranks than do"));
}

DTensor gather_counts(Runtime& runtime, const PeerGroup& group, std::span<const DTensor> by_chunk) {
  const std::vector<DTensor> lists(by_chunk.begin(), by_chunk.end());
  const DTensor own = joined(lists);
  const Indices sizes(static_cast<std::size_t>(group.ep * group.etp), own.size(0));
  return kept_tensor(runtime, [&] {
    return move_rows(own, {.kind = RowMove::Kind::kAllGather, .group = group.ranks, .send = sizes});
  });
}

PeerStep peer_step(const PeerGroup& group, const PeerChunk& chunk, std::int64_t index,
                   const PeerCounts& counts, std::int64_t alignment, std::int64_t bound) {
  Runtime& runtime = counts.table.runtime();
  const std::int64_t num_experts = group.num_experts(), by_rank = num_experts * counts.chunks;
  const bool is_exact = !chunk.rows_per_expert && bound == 0;
  auto places = std::make_shared<PeerPlaces>();
  places->copies = group.etp;
  kernels::KeySize size{.alignment = alignment};
  std::int64_t room = kernels::kAnyNumber;
  if (chunk.rows_per_expert) {
    size.rows = *chunk.rows_per_expert;
    places->rows = group.own() * padded_rows(size.rows, alignment);
  } else if (bound > 0) {
    // The same on every rank, which tell each other's rows from it.
    room = places->rows = padded_bound(bound, group.held[0], alignment);
  } else {
    const HostCounts host(group, counts, index);
    places->rows = host.buffer_rows(alignment);
    for (std::int64_t ep = 0; ep < group.ep; ++ep) {
      for (std::int64_t etp = 0; etp < group.etp; ++etp) {
        places->rows_of_tokens.push_back(
            host.rows(group.rank_at(group.ep_rank, group.etp_rank), ep));
        places->rows_of_buffer.push_back(host.rows(group.rank_at(ep, etp), group.ep_rank));
      }
    }
  }
  const DTensor place_S = empty_list(runtime, {chunk.rows * chunk.top_k}),
                counts_e = empty_list(runtime, {group.own()}),
                filled_e = empty_list(runtime, {group.own()}), totals = empty_list(runtime, {4});
  const Array& table = counts.table.local();
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
                         {place_S.local(), counts_e.local(), filled_e.local(), totals.local()});
  places->place_TK = reshape(place_S, {chunk.rows, chunk.top_k});
  if (!is_exact || alignment > 1) {
    places->counts_e = counts_e;
    places->filled_e = filled_e;
  }
  return {.put = {.kind = RowMove::Kind::kPut, .group = group.ranks, .peers = std::move(places)},
          .counts_e = counts_e,
          .came = slice(totals, 0, 1, 2)};
}

}  // namespace tessera
