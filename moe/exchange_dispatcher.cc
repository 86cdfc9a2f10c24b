#include "moe/exchange_dispatcher.h"

#include <algorithm>
#include <utility>

#include "dtensor/recompute.h"
#include "moe/exchange_route.h"

namespace tessera {
namespace {

/// Rows that each rank of the group has for experts [first_expert, first_expert + num_experts), by
/// chunk.
struct CountTable {
  Indices values;  ///< by rank, chunk, expert
  std::int64_t chunks = 1;
  std::int64_t first_expert = 0, num_experts = 0;

  std::int64_t at(std::int64_t rank, std::int64_t chunk, std::int64_t expert) const {
    return values[static_cast<std::size_t>((rank * chunks + chunk) * num_experts + expert -
                                           first_expert)];
  }
};

struct Chunk {
  std::int64_t index = 0;
  TokenRange tokens;
  SortedSlots sorted;
  std::optional<ExpertRoom> room = {};
};

/// What the dispatchers of this file share: sorting, counts, the order at the experts.
class ExchangeDispatcher : public Dispatcher {
 public:
  ExchangeDispatcher(const ExpertGroup& group, std::int64_t num_experts,
                     const DispatchConfig& config)
      : Dispatcher(group, num_experts, config),
        experts_(experts_by_rank(num_experts, group.ep_size())) {}

  RoutePlan plan(const RoutedTokens& tokens) const override {
    Runtime& runtime = tokens.ids_TK.runtime();
    std::vector<Chunk> chunks;
    RoutePlan plan;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      const TokenRange range = chunk_of(tokens.ids_TK.size(0), config().chunks, c);
      plan.chunks.push_back(range);
      chunks.push_back({c, range, sort_slots(tokens.ids_TK, range, num_experts()),
                        room_in_chunk(tokens, config().chunks, c)});
    }
    const CountTable counts = exchange_counts(runtime, chunks);
    for (const Chunk& chunk : chunks) {
      plan.routes.push_back(
          std::make_unique<ExchangeRoute>(steps_of(runtime, chunk, counts, tokens.ids_TK.size(1))));
    }
    if (bounds_rows()) {
      const std::int64_t needed[] = {rows_needed(chunks)};
      plan.rows_needed = index_tensor(runtime, needed);
    }
    return plan;
  }

 protected:
  /// Counts of the group's rows, as far as this rank has to know them.
  virtual CountTable exchange_counts(Runtime& runtime, const std::vector<Chunk>& chunks) const = 0;
  virtual ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable& counts,
                                 std::int64_t top_k) const = 0;

  /// What the move of counts brings, the one host read where sizes are exact. A recomputed pass
  /// must see the same.
  Indices received_values(Runtime& runtime, const Indices& sent, const RowMove& move,
                          const std::vector<Chunk>& chunks) const {
    return kept_values(runtime, [&]() -> Indices {
      const DTensor received = move_rows(index_tensor(runtime, sent), move);
      if (!bounds_rows() && !chunks.front().room) log_host_read(runtime, "moe.dispatch.counts");
      return values_of(received);
    });
  }
  bool bounds_rows() const { return config().rows_bound > 0 && group().size() > 1; }
  /// Rows that one sender may have for one ep rank in a chunk; empty: any number.
  std::optional<std::int64_t> capacity(const Chunk& chunk, std::int64_t ep_rank) const {
    if (chunk.room) return chunk.room->of_sender * experts_of(ep_rank).size;
    if (!bounds_rows()) return std::nullopt;
    return config().rows_bound / (group().ep_size() * config().chunks);
  }
  ExpertRange experts_of(std::int64_t ep_rank) const {
    return tessera::experts_of(experts_, ep_rank);
  }
  std::int64_t rows_for(const Chunk& chunk, std::int64_t ep_rank) const {
    const ExpertRange experts = experts_of(ep_rank);
    const auto counts = std::span<const std::int64_t>(chunk.sorted.counts_E)
                            .subspan(static_cast<std::size_t>(experts.begin),
                                     static_cast<std::size_t>(experts.size));
    return sum_of(counts);
  }
  std::int64_t ep_rank(Runtime& runtime) const {
    return position_along(group().mesh, group().ep_axes, runtime.rank());
  }
  std::int64_t etp_rank(Runtime& runtime) const {
    return position_along(group().mesh, group().etp_axes, runtime.rank());
  }
  std::int64_t rank_at(std::int64_t ep_position, std::int64_t etp_position) const {
    return ep_position * group().etp_size() + etp_position;
  }
  /// Rows of `experts` that one rank of the group has.
  static std::int64_t rows_of(const CountTable& counts, std::int64_t rank, std::int64_t chunk,
                              ExpertRange experts) {
    std::int64_t rows = 0;
    for (std::int64_t e = experts.begin; e < experts.end(); ++e) rows += counts.at(rank, chunk, e);
    return rows;
  }
  /// The gather along etp of what each of its ranks received.
  void add_gather(ExchangeSteps& steps, Indices rows) const {
    if (group().etp_axes.empty()) return;
    steps.hops.push_back(
        {.kind = RowMove::Kind::kAllGather, .group = group().etp(), .send = std::move(rows)});
  }
  void set_expert_order(Runtime& runtime, ExchangeSteps& steps, const Chunk& chunk,
                        const BlockWriter& blocks) const {
    OrderedSize size{.alignment = config().expert_alignment};
    const std::int64_t num_local = experts_of(ep_rank(runtime)).size;
    if (chunk.room) {
      size.rows_per_expert = chunk.room->of_group;
    } else if (bounds_rows()) {
      size.num_rows = padded_bound(blocks.num_rows(), num_local, size.alignment);
    }
    steps.order = expert_order_of(runtime, blocks, size);
  }

 private:
  /// The rows_bound with which every sender's part would have room.
  std::int64_t rows_needed(const std::vector<Chunk>& chunks) const {
    std::int64_t most = 0;
    for (const Chunk& chunk : chunks) {
      for (std::int64_t rank = 0; rank < group().ep_size(); ++rank) {
        most = std::max(most, rows_for(chunk, rank));
      }
    }
    return most * group().ep_size() * config().chunks;
  }

  Indices experts_;
};

class LocalDispatcher final : public ExchangeDispatcher {
 public:
  using ExchangeDispatcher::ExchangeDispatcher;

 protected:
  CountTable exchange_counts(Runtime&, const std::vector<Chunk>&) const override { return {}; }

  /// The number of rows is that of all slots, dropped ones too, so that it needs no count.
  ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable&,
                         std::int64_t top_k) const override {
    BlockWriter blocks(std::nullopt);
    blocks.begin_sender();
    for (const std::int64_t rows : chunk.sorted.counts_E) blocks.add(rows);
    const std::int64_t slots = chunk.tokens.size() * top_k;
    const std::int64_t alignment = config().expert_alignment;
    OrderedSize size{.alignment = alignment};
    if (chunk.room) {
      size.rows_per_expert = chunk.room->of_group;
    } else {
      size.num_rows = padded_bound(slots, num_experts(), alignment);
    }
    RowOrder order = order_by_expert(blocks.blocks(), 1, blocks.num_rows(), size);
    for (std::int64_t& source : order.source_R) {
      if (source >= 0) source = chunk.sorted.slots[static_cast<std::size_t>(source)];
    }
    return {.places = places_of(runtime, order.source_R, slots, top_k),
            .hops = {},
            .order = {.counts_e = index_tensor(runtime, order.counts_e)}};
  }
};

/// One all-to-all-v along ep.
class DirectDispatcher final : public ExchangeDispatcher {
 public:
  using ExchangeDispatcher::ExchangeDispatcher;

 protected:
  /// Each ep rank's part of the counts goes to all of its etp ranks, so that one exchange tells
  /// both hops.
  CountTable exchange_counts(Runtime& runtime, const std::vector<Chunk>& chunks) const override {
    const ExpertRange own = experts_of(ep_rank(runtime));
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = group().all()};
    Indices sent;
    for (std::int64_t peer = 0; peer < group().size(); ++peer) {
      const ExpertRange experts = experts_of(peer / group().etp_size());
      for (const Chunk& chunk : chunks) {
        const auto counts = chunk.sorted.counts_E.begin();
        sent.insert(sent.end(), counts + experts.begin, counts + experts.end());
      }
      move.send.push_back(experts.size * config().chunks);
      move.recv.push_back(own.size * config().chunks);
    }
    return {.values = received_values(runtime, sent, move, chunks),
            .chunks = config().chunks,
            .first_expert = own.begin,
            .num_experts = own.size};
  }

  ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable& counts,
                         std::int64_t top_k) const override {
    const std::int64_t ep = group().ep_size();
    const std::int64_t etp = group().etp_size();
    const ExpertRange own = experts_of(ep_rank(runtime));
    const auto fixed = capacity(chunk, ep_rank(runtime));
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = group().ep()};
    for (std::int64_t peer = 0; peer < ep; ++peer) {
      const std::int64_t sender = rank_at(peer, etp_rank(runtime));
      move.send.push_back(capacity(chunk, peer).value_or(rows_for(chunk, peer)));
      move.recv.push_back(fixed ? *fixed : rows_of(counts, sender, chunk.index, own));
    }
    BlockWriter blocks(fixed);
    Indices gathered;
    for (std::int64_t peer = 0; peer < etp; ++peer) {
      const std::int64_t before = blocks.num_rows();
      for (std::int64_t sender = 0; sender < ep; ++sender) {
        blocks.begin_sender();
        for (std::int64_t e = own.begin; e < own.end(); ++e) {
          blocks.add(counts.at(rank_at(sender, peer), chunk.index, e));
        }
      }
      gathered.push_back(blocks.num_rows() - before);
    }
    const std::int64_t slots = chunk.tokens.size() * top_k;
    ExchangeSteps steps{.places = places_of(runtime, sent_slots(chunk), slots, top_k),
                        .hops = {std::move(move)}};
    add_gather(steps, std::move(gathered));
    set_expert_order(runtime, steps, chunk, blocks);
    return steps;
  }

 private:
  /// Slots of the rows as they are sent: by expert, or in parts of equal size, cut where full.
  Indices sent_slots(const Chunk& chunk) const {
    if (!capacity(chunk, 0)) return chunk.sorted.slots;
    Indices slots;
    auto next = chunk.sorted.slots.begin();
    for (std::int64_t peer = 0; peer < group().ep_size(); ++peer) {
      const std::int64_t rows = rows_for(chunk, peer);
      const std::int64_t room = *capacity(chunk, peer);
      const std::size_t before = slots.size();
      slots.insert(slots.end(), next, next + std::min(rows, room));
      slots.resize(before + static_cast<std::size_t>(room), -1);
      next += rows;
    }
    return slots;
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_local_dispatcher(const ExpertGroup& group,
                                                  std::int64_t num_experts,
                                                  const DispatchConfig& config) {
  return std::make_unique<LocalDispatcher>(group, num_experts, config);
}
std::unique_ptr<Dispatcher> make_exchange_dispatcher(const ExpertGroup& group,
                                                     std::int64_t num_experts,
                                                     const DispatchConfig& config) {
  return std::make_unique<DirectDispatcher>(group, num_experts, config);
}

}  // namespace tessera
