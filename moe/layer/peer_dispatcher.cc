// Rows straight from their tokens to their places with the ranks of their experts, and straight
// back as sums.
#include <utility>

#include "dtensor/ops.h"
#include "moe/layer/dispatcher_kinds.h"
#include "moe/layer/peer_step.h"
#include "moe/layer/simulated_peers.h"

namespace tessera {
namespace {

class PeerRoute final : public Route {
 public:
  explicit PeerRoute(PeerStep step) : step_(std::move(step)) {}

  void begin(const DTensor& x_TD) override { pending_ = begin_move(x_TD, step_.put); }
  ExpertRows arrive() override { return {pending_.finish(), step_.counts_e}; }
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    pending_ = begin_sum(y_RD, weights_TK, step_.put.reversed(), y_RD.dtype());
  }
  DTensor finish_return() override { return pending_.finish(); }

 private:
  PeerStep step_;
  PendingRows pending_;
};

class PeerDispatcher final : public Dispatcher {
 public:
  using Dispatcher::Dispatcher;

  RoutePlan plan(const RoutedTokens& tokens) const override {
    Runtime& runtime = tokens.ids_TK.runtime();
    const NoGrad no_grad(runtime);
    check_reach(runtime, layer(), group().all());
    const PeerGroup peers = peers_of(runtime);
    RoutePlan plan;
    std::vector<PeerChunk> chunks;
    std::vector<DTensor> by_chunk;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      plan.chunks.push_back(chunk_of(tokens.ids_TK.size(0), config().chunks, c));
      chunks.push_back(chunk_at(tokens, c, plan.chunks.back()));
      by_chunk.push_back(chunks.back().sorted.counts_K);
    }
    CountTable counts = gather_counts(runtime, peers, by_chunk);
    if (config().rows_bound == 0 && !tokens.room) {
      counts.values = read_counts(runtime, std::span(&counts.received, 1))[0];
    }
    DTensor most;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      PeerStep step = peer_step(peers, chunks[static_cast<std::size_t>(c)], c, counts,
                                config().expert_alignment, config().rows_bound / config().chunks);
      most = most.defined() ? maximum(most, step.came) : step.came;
      plan.routes.push_back(std::make_unique<PeerRoute>(std::move(step)));
    }
    if (config().rows_bound > 0) {
      plan.rows_needed = mul(most, static_cast<double>(config().chunks));
    }
    return plan;
  }

  bool needs_tokens_by_rank() const override { return false; }

  /// One all-gather of each rank's counts of all experts.
  void arrive(const SimulatedPeers& peers, const CollectiveCall& call,
              std::span<const std::int64_t> ranks) const override {
    peers.fill_counts(call, ranks, {0, group().ep_size()});
  }

 private:
  PeerGroup peers_of(Runtime& runtime) const {
    return {.ranks = group().all(),
            .ep = group().ep_size(),
            .etp = group().etp_size(),
            .ep_rank = position_along(group().mesh, group().ep_axes, runtime.rank()),
            .etp_rank = position_along(group().mesh, group().etp_axes, runtime.rank()),
            .held = experts_by_rank(num_experts(), group().ep_size())};
  }
  PeerChunk chunk_at(const RoutedTokens& tokens, std::int64_t index, TokenRange range) const {
    PeerChunk chunk{.sorted = sort_slots(tokens.ids_TK, range, num_experts()),
                    .rows = range.size(),
                    .top_k = tokens.ids_TK.size(1)};
    if (const auto room = room_in_chunk(tokens, config().chunks, index)) {
      chunk.rows_per_expert = room->of_group;
    }
    return chunk;
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_peer_dispatcher(const DispatcherSetting& setting) {
  return std::make_unique<PeerDispatcher>(setting);
}

}  // namespace tessera
