#include <array>
#include <limits>
#include <utility>

#include "dtensor/ops.h"
#include "dtensor/recompute.h"
#include "moe/layer/dispatcher_kinds.h"
#include "moe/layer/exchange_route.h"

namespace tessera {
namespace {

struct Chunk {
  std::int64_t index = 0;
  TokenRange tokens;
  SortedSlots sorted;
  std::optional<ExpertRoom> room = {};
  Indices counts_E = {};  ///< of the sorted slots, on the host; empty where sizes are fixed
};

/// What the dispatchers of this file share: sorting, counts, the order at the experts.
class ExchangeDispatcher : public Dispatcher {
 public:
  explicit ExchangeDispatcher(const DispatcherSetting& setting)
      : Dispatcher(setting),
        experts_(experts_by_rank(setting.num_experts, setting.group.ep_size())) {}

  bool needs_tokens_by_rank() const override { return false; }

  RoutePlan plan(const RoutedTokens& tokens) const override {
    Runtime& runtime = tokens.ids_TK.runtime();
    const NoGrad no_grad(runtime);
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
    if (bounds_rows()) plan.rows_needed = rows_needed(chunks);
    return plan;
  }

 protected:
  /// Counts of the group's rows for this rank's experts; where sizes are exact, those of the chunks
  /// come to the host as well.
  virtual CountTable exchange_counts(Runtime& runtime, std::vector<Chunk>& chunks) const = 0;
  virtual ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable& counts,
                                 std::int64_t top_k) const = 0;

  bool bounds_rows() const { return config().rows_bound > 0 && group().size() > 1; }
  /// Room that each sender has for one ep rank in a chunk; empty: for any number of rows.
  std::optional<kernels::PartRooms> rooms(const Chunk& chunk) const {
    if (!chunk.room && !bounds_rows()) return std::nullopt;
    kernels::PartRooms rooms = {.parts = group().ep_size(),
                                .keys_per_part = experts_[0],
                                .most = std::numeric_limits<std::int64_t>::max()};
    if (chunk.room) {
      rooms.rows_per_expert = chunk.room->of_sender;
      rooms.experts_per_part = experts_[0];
      rooms.experts = num_experts();
    } else {
      rooms.most = config().rows_bound / (group().ep_size() * config().chunks);
    }
    return rooms;
  }
  ExpertRange experts_of(std::int64_t ep_rank) const {
    return tessera::experts_of(experts_, ep_rank);
  }
  std::int64_t ep_rank(Runtime& runtime) const {
    return position_along(group().mesh, group().ep_axes, runtime.rank());
  }
  std::int64_t etp_rank(Runtime& runtime) const {
    return position_along(group().mesh, group().etp_axes, runtime.rank());
  }
  OrderedSize ordered_size(const Chunk& chunk) const {
    OrderedSize size{.alignment = config().expert_alignment};
    if (chunk.room) size.rows_per_expert = chunk.room->of_group;
    return size;
  }

 private:
  /// The rows_bound with which every sender's part would have room.
  DTensor rows_needed(const std::vector<Chunk>& chunks) const {
    DTensor most;
    for (const Chunk& chunk : chunks) {
      const DTensor own = fullest(chunk.sorted.counts_K, group().ep_size(), experts_[0]);
      most = most.defined() ? maximum(most, own) : own;
    }
    return mul(most, static_cast<double>(group().ep_size() * config().chunks));
  }

  Indices experts_;
};

class LocalDispatcher final : public ExchangeDispatcher {
 public:
  using ExchangeDispatcher::ExchangeDispatcher;

 protected:
  CountTable exchange_counts(Runtime&, std::vector<Chunk>&) const override { return {}; }

  /// The number of rows is that of all slots, dropped ones too, so that it needs no count.
  ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable&,
                         std::int64_t top_k) const override {
    const std::int64_t slots = chunk.tokens.size() * top_k, alignment = config().expert_alignment;
    kernels::KeySize size{.alignment = alignment};
    std::int64_t rows = padded_bound(slots, num_experts(), alignment);
    if (chunk.room) {
      size.rows = chunk.room->of_group;
      rows = num_experts() * padded_rows(size.rows, alignment);
    }
    const DTensor slot_R = empty_list(runtime, {rows}),
                  counts_e = empty_list(runtime, {num_experts()});
    const Array& counts = chunk.sorted.counts_K.local();
    kernels::order_by_key(
        runtime.kernels(),
        {.counts_PSK = counts.as_strided({1, 1, num_experts()}, {0, 0, 1}, counts.offset())}, size,
        chunk.sorted.slots.local(), {slot_R.local(), {}, counts_e.local()});
    return {.places = places_of(slot_R, slots, top_k), .hops = {}, .order = {.counts_e = counts_e}};
  }
};

/// One all-to-all-v along ep.
class DirectDispatcher final : public ExchangeDispatcher {
 public:
  using ExchangeDispatcher::ExchangeDispatcher;

 protected:
  /// Each ep rank's part of the counts goes to all of its etp ranks, so that one exchange tells
  /// both hops. A recomputed pass must see the same.
  CountTable exchange_counts(Runtime& runtime, std::vector<Chunk>& chunks) const override {
    const ExpertRange own = experts_of(ep_rank(runtime));
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = group().all()};
    std::vector<ExpertRange> told;
    for (std::int64_t peer = 0; peer < group().size(); ++peer) {
      told.push_back(experts_of(peer / group().etp_size()));
      move.send.push_back(told.back().size * config().chunks);
      move.recv.push_back(own.size * config().chunks);
    }
    std::vector<DTensor> counts;
    for (const Chunk& chunk : chunks) counts.push_back(chunk.sorted.counts_K);
    CountTable table{.chunks = config().chunks, .num_experts = own.size};
    table.received =
        kept_tensor(runtime, [&] { return move_rows(counts_to_send(counts, told), move); });
    if (rooms(chunks.front())) return table;
    std::vector<DTensor> lists = {table.received};
    lists.insert(lists.end(), counts.begin(), counts.end());
    const std::vector<Indices> values = read_counts(runtime, lists);
    table.values = values[0];
    for (std::size_t c = 0; c < chunks.size(); ++c) chunks[c].counts_E = values[c + 1];
    return table;
  }

  ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable& counts,
                         std::int64_t top_k) const override {
    const std::int64_t self = ep_rank(runtime);
    const auto fixed = rooms(chunk);
    Arrival arrival{
        .counts = counts, .chunk = chunk.index, .ep = group().ep_size(), .etp = group().etp_size()};
    if (fixed) arrival.room = fixed->of(self);
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = group().ep()};
    for (std::int64_t peer = 0; peer < arrival.ep; ++peer) {
      move.send.push_back(fixed ? fixed->of(peer) : rows_for(chunk, peer));
      move.recv.push_back(arrival.rows_of(arrival.rank_at(peer, etp_rank(runtime))));
    }
    const DTensor slots =
        fixed ? packed(chunk.sorted, *fixed) : first_of(chunk.sorted.slots, sum_of(chunk.counts_E));
    ExchangeSteps steps{.places = places_of(slots, chunk.tokens.size() * top_k, top_k),
                        .hops = {std::move(move)},
                        .order = expert_order_of(arrival, ordered_size(chunk))};
    if (!group().etp_axes.empty()) {
      steps.hops.push_back({.kind = RowMove::Kind::kAllGather,
                            .group = group().etp(),
                            .send = arrival.rows_by_etp()});
    }
    return steps;
  }

 private:
  std::int64_t rows_for(const Chunk& chunk, std::int64_t ep_rank) const {
    const ExpertRange experts = experts_of(ep_rank);
    return sum_of(std::span(chunk.counts_E)
                      .subspan(static_cast<std::size_t>(experts.begin),
                               static_cast<std::size_t>(experts.size)));
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_local_dispatcher(const DispatcherSetting& setting) {
  return std::make_unique<LocalDispatcher>(setting);
}
std::unique_ptr<Dispatcher> make_exchange_dispatcher(const DispatcherSetting& setting) {
  return std::make_unique<DirectDispatcher>(setting);
}

}  // namespace tessera
