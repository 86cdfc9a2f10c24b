#include "moe/layer/simulated_peers.h"

#include <algorithm>

#include "moe/layer/dispatch.h"
#include "moe/layer/expert_blocks.h"

namespace tessera {

void SimulatedPeers::arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
  if (call.out().is_null() || call.out().dtype() != DType::kI64) return;
  dispatcher_.arrive(*this, call, ranks);
}

std::vector<std::int64_t> SimulatedPeers::counts_of(std::int64_t rank) const {
  const std::vector<std::int64_t> ids = of_.ids_of(rank);
  const std::int64_t tokens = std::ssize(ids) / of_.top_k;
  const std::int64_t chunks = dispatcher_.config().chunks;
  std::vector<std::int64_t> counts;
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const TokenRange range = chunk_of(tokens, chunks, chunk);
    const std::size_t before = counts.size();
    counts.resize(before + static_cast<std::size_t>(dispatcher_.num_experts()), 0);
    for (std::int64_t slot = range.begin * of_.top_k; slot < range.end * of_.top_k; ++slot) {
      ++counts[before + static_cast<std::size_t>(ids[static_cast<std::size_t>(slot)])];
    }
  }
  return counts;
}

std::int64_t SimulatedPeers::ep_rank_of(std::int64_t rank) const {
  const ExpertGroup& group = dispatcher_.group();
  return (*group.mesh.coord_of(rank))[static_cast<std::size_t>(group.ep_axes[0])];
}

void SimulatedPeers::fill_counts(const CollectiveCall& call, std::span<const std::int64_t> ranks,
                                 EpRange positions,
                                 const std::function<Ranks(std::int64_t rank)>& through) const {
  const std::int64_t num_experts = dispatcher_.num_experts();
  const ExpertRange experts =
      experts_of(experts_by_rank(num_experts, dispatcher_.group().ep_size()), positions.first,
                 positions.count);
  const std::int64_t width = experts.size * dispatcher_.config().chunks;
  std::int64_t* out = call.out().data<std::int64_t>();
  std::fill_n(out, call.out().num_elements(), 0);
  for (const std::int64_t rank : ranks) {
    for (const std::int64_t sender : through ? through(rank) : Ranks{rank}) {
      const std::vector<std::int64_t> counts = counts_of(sender);
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t expert = experts.begin + i % experts.size;
        out[i] += counts[static_cast<std::size_t>(i / experts.size * num_experts + expert)];
      }
    }
    out += width;
  }
}

void SimulatedPeers::fill_ids(const CollectiveCall& call,
                              std::span<const std::int64_t> ranks) const {
  std::int64_t* out = call.out().data<std::int64_t>();
  for (const std::int64_t rank : ranks) {
    const std::vector<std::int64_t> ids = of_.ids_of(rank);
    out = std::copy(ids.begin(), ids.end(), out);
  }
}

}  // namespace tessera
