#include "moe/simulated_peers.h"

#include <algorithm>

#include "moe/dispatch.h"
#include "moe/expert_blocks.h"

namespace tessera {

using Kind = CollectiveCall::Kind;

void SimulatedPeers::arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
  if (call.out().is_null() || call.out().dtype() != DType::kI64) return;
  if (call.kind() == Kind::kAllToAll) fill_counts(call, ranks, {ep_rank_of(of_.rank), 1});
  if (call.kind() == Kind::kAllGather) fill_gathered(call, ranks);
}

/// Rows for each expert, chunk by chunk.
SimulatedPeers::Numbers SimulatedPeers::counts_of(std::int64_t rank) const {
  const Numbers ids = of_.ids_of(rank);
  const std::int64_t tokens = static_cast<std::int64_t>(ids.size()) / of_.top_k;
  const std::int64_t chunks = of_.dispatch.chunks;
  Numbers counts;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const TokenRange range = chunk_of(tokens, chunks, chunk);
    const std::size_t before = counts.size();
    counts.resize(before + static_cast<std::size_t>(of_.num_experts), 0);
    for (std::int64_t slot = range.begin * of_.top_k; slot < range.end * of_.top_k; ++slot) {
      ++counts[before + static_cast<std::size_t>(ids[static_cast<std::size_t>(slot)])];
    }
  }
  return counts;
}

std::int64_t SimulatedPeers::ep_rank_of(std::int64_t rank) const {
  const auto axis = static_cast<std::size_t>(of_.group.ep_axes[0]);
  return (*of_.group.mesh.coord_of(rank))[axis];
}

/// Positions of ep in each node where tokens cross nodes once; else all.
std::int64_t SimulatedPeers::ep_per_node() const {
  const DispatchConfig& dispatch = of_.dispatch;
  const bool may =
      dispatch.kind == DispatcherKind::kHierarchical || dispatch.kind == DispatcherKind::kPeer;
  const bool nodes =
      may && dispatch.ranks_per_node > 0 && dispatch.ranks_per_node < of_.group.size();
  return nodes ? dispatch.ranks_per_node / of_.group.etp_size() : of_.group.ep_size();
}

/// Ranks whose tokens reach their experts by way of `rank`: where they cross nodes once those of
/// the same place in each node, else itself.
SimulatedPeers::Numbers SimulatedPeers::sent_through(std::int64_t rank) const {
  const std::int64_t per_node = ep_per_node(), ep = of_.group.ep_size();
  if (per_node == ep) return {rank};
  const auto axis = static_cast<std::size_t>(of_.group.ep_axes[0]);
  Coord coord = *of_.group.mesh.coord_of(rank);
  Numbers ranks;
  for (std::int64_t at = coord[axis] % per_node; at < ep; at += per_node) {
    coord[axis] = at;
    ranks.push_back(of_.group.mesh.rank_of(coord));
  }
  return ranks;
}

/// From each rank its counts of the experts of these positions, chunk by chunk.
void SimulatedPeers::fill_counts(const CollectiveCall& call, std::span<const std::int64_t> ranks,
                                 EpRange positions) const {
  const Numbers held = experts_by_rank(of_.num_experts, of_.group.ep_size());
  const ExpertRange experts = experts_of(held, positions.first, positions.count);
  std::int64_t* out = call.out().data<std::int64_t>();
  std::fill_n(out, call.out().num_elements(), 0);
  for (const std::int64_t rank : ranks) {
    for (const std::int64_t sender : sent_through(rank)) {
      const Numbers counts = counts_of(sender);
      for (std::int64_t i = 0; i < experts.size * of_.dispatch.chunks; ++i) {
        const std::int64_t expert = experts.begin + i % experts.size;
        out[i] += counts[static_cast<std::size_t>(i / experts.size * of_.num_experts + expert)];
      }
    }
    out += experts.size * of_.dispatch.chunks;
  }
}

/// From each rank the experts of its tokens; to write to peers, counts within a node.
void SimulatedPeers::fill_gathered(const CollectiveCall& call,
                                   std::span<const std::int64_t> ranks) const {
  const auto node_of = [&](std::int64_t rank) { return ep_rank_of(rank) / ep_per_node(); };
  const bool in_a_node = std::ranges::all_of(
      ranks, [&](std::int64_t rank) { return node_of(rank) == node_of(ranks.front()); });
  if (of_.dispatch.kind == DispatcherKind::kPeer && in_a_node) {
    return fill_counts(call, ranks, {node_of(of_.rank) * ep_per_node(), ep_per_node()});
  }
  std::int64_t* out = call.out().data<std::int64_t>();
  for (const std::int64_t rank : ranks) {
    const Numbers ids = of_.ids_of(rank);
    out = std::copy(ids.begin(), ids.end(), out);
  }
}

}  // namespace tessera
