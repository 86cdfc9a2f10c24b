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

/// Experts [begin, begin + size) of each ep rank.
struct ExpertRange {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
};

/// Lays out what a rank receives: senders in turn, each with its rows by expert.
class BlockWriter {
 public:
  /// `capacity`: rows that each sender's part has room for; empty: as many as it has.
  explicit BlockWriter(std::optional<std::int64_t> capacity) : capacity_(capacity) {}
  void begin_sender() {
    if (capacity_) next_ = capacity_of(num_senders_);
    ++num_senders_;
  }
  void add(std::int64_t rows) {
    const std::int64_t fitting =
        capacity_ ? std::min(rows, capacity_of(num_senders_) - next_) : rows;
    blocks_.push_back({next_, fitting});
    next_ += fitting;
  }
  std::int64_t num_rows() const { return capacity_ ? capacity_of(num_senders_) : next_; }
  std::int64_t num_senders() const { return num_senders_; }
  std::span<const RowBlock> blocks() const { return blocks_; }

 private:
  std::int64_t capacity_of(std::int64_t senders) const { return *capacity_ * senders; }

  std::optional<std::int64_t> capacity_;
  std::int64_t next_ = 0;
  std::int64_t num_senders_ = 0;
  std::vector<RowBlock> blocks_;
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
      const auto values = values_of(received);
      return {values.begin(), values.end()};
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
    const auto at = experts_.begin() + ep_rank;
    return {sum_of({experts_.begin(), at}), *at};
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
        {.move = {
             .kind = RowMove::Kind::kAllGather, .group = group().etp(), .send = std::move(rows)}});
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
    const RowOrder order =
        order_by_expert(blocks.blocks(), blocks.num_senders(), blocks.num_rows(), size);
    steps.source_R = index_tensor(runtime, order.source_R);
    steps.restore_N = index_tensor(runtime, order.restore_N);
    steps.counts_e = index_tensor(runtime, order.counts_e);
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
            .counts_e = index_tensor(runtime, order.counts_e)};
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
                        .hops = {{.move = std::move(move)}}};
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

/// Across nodes to the rank of the same position, then within the node: every row crosses once.
class NodeDispatcher final : public ExchangeDispatcher {
 public:
  NodeDispatcher(const ExpertGroup& group, std::int64_t num_experts, const DispatchConfig& config,
                 std::int64_t ep_per_node)
      : ExchangeDispatcher(group, num_experts, config),
        per_node_(ep_per_node),
        nodes_(group.ep_size() / ep_per_node) {
    // ep as two axes; the axes behind it move by one.
    Shape shape;
    std::vector<std::string> names;
    for (int axis = 0; axis < group.mesh.ndim(); ++axis) {
      if (axis != group.ep_axes[0]) {
        shape.push_back(group.mesh.size(axis));
        names.push_back(group.mesh.axis_label(axis));
        continue;
      }
      across_.axes = {axis};
      within_.axes = {axis + 1};
      shape.push_back(nodes_);
      shape.push_back(per_node_);
      names.push_back(group.mesh.axis_label(axis) + "_node");
      names.push_back(group.mesh.axis_label(axis) + "_local");
    }
    across_.mesh = within_.mesh =
        value_or_throw(group.mesh.refactor(view_of(shape), std::move(names)));
  }

 protected:
  /// Rows pass through ranks that do not keep them, so every rank needs all counts.
  CountTable exchange_counts(Runtime& runtime, const std::vector<Chunk>& chunks) const override {
    if (chunks.front().room) {
      throw Error(
          invalid_argument("the hierarchical dispatcher has exact sizes; it takes no room"));
    }
    Indices own;
    for (const Chunk& chunk : chunks) {
      own.insert(own.end(), chunk.sorted.counts_E.begin(), chunk.sorted.counts_E.end());
    }
    const Indices rows(static_cast<std::size_t>(group().size()),
                       static_cast<std::int64_t>(own.size()));
    return {.values = received_values(
                runtime, own,
                {.kind = RowMove::Kind::kAllGather, .group = group().all(), .send = rows}, chunks),
            .chunks = config().chunks,
            .first_expert = 0,
            .num_experts = num_experts()};
  }

  ExchangeSteps steps_of(Runtime& runtime, const Chunk& chunk, const CountTable& counts,
                         std::int64_t top_k) const override {
    const std::int64_t slots = chunk.tokens.size() * top_k;
    ExchangeSteps steps{.places = places_of(runtime, chunk.sorted.slots, slots, top_k),
                        .hops = {hop_across(runtime, chunk, counts)}};
    steps.hops.push_back(hop_within(runtime, chunk, counts));

    const ExpertRange own = experts_of(ep_rank(runtime));
    BlockWriter blocks(std::nullopt);
    Indices gathered;
    for (std::int64_t peer = 0; peer < group().etp_size(); ++peer) {
      const std::int64_t before = blocks.num_rows();
      for (std::int64_t local = 0; local < per_node_; ++local) {
        for (std::int64_t node = 0; node < nodes_; ++node) {
          blocks.begin_sender();
          const std::int64_t sender = rank_at(node * per_node_ + local, peer);
          for (std::int64_t e = own.begin; e < own.end(); ++e) {
            blocks.add(counts.at(sender, chunk.index, e));
          }
        }
      }
      gathered.push_back(blocks.num_rows() - before);
    }
    add_gather(steps, std::move(gathered));
    set_expert_order(runtime, steps, chunk, blocks);
    return steps;
  }

 private:
  /// Rows that `sender` has for the experts of one node, or of one of its ranks.
  std::int64_t rows_to(const CountTable& counts, std::int64_t sender, const Chunk& chunk,
                       std::int64_t ep_position) const {
    return rows_of(counts, sender, chunk.index, experts_of(ep_position));
  }

  Hop hop_across(Runtime& runtime, const Chunk& chunk, const CountTable& counts) const {
    const std::int64_t own_node = ep_rank(runtime) / per_node_;
    const std::int64_t own_local = ep_rank(runtime) % per_node_;
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = across_};
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const std::int64_t sender = rank_at(node * per_node_ + own_local, etp_rank(runtime));
      std::int64_t sent = 0;
      std::int64_t received = 0;
      for (std::int64_t local = 0; local < per_node_; ++local) {
        sent += rows_for(chunk, node * per_node_ + local);
        received += rows_to(counts, sender, chunk, own_node * per_node_ + local);
      }
      move.send.push_back(sent);
      move.recv.push_back(received);
    }
    return {.move = std::move(move)};
  }

  Hop hop_within(Runtime& runtime, const Chunk& chunk, const CountTable& counts) const {
    const std::int64_t own_node = ep_rank(runtime) / per_node_;
    const std::int64_t own_local = ep_rank(runtime) % per_node_;
    BlockWriter by_node(std::nullopt);
    for (std::int64_t node = 0; node < nodes_; ++node) {
      by_node.begin_sender();
      const std::int64_t sender = rank_at(node * per_node_ + own_local, etp_rank(runtime));
      for (std::int64_t local = 0; local < per_node_; ++local) {
        by_node.add(rows_to(counts, sender, chunk, own_node * per_node_ + local));
      }
    }
    const RowOrder order = order_by_expert(by_node.blocks(), nodes_, by_node.num_rows());
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = within_, .send = order.counts_e};
    for (std::int64_t local = 0; local < per_node_; ++local) {
      std::int64_t received = 0;
      for (std::int64_t node = 0; node < nodes_; ++node) {
        const std::int64_t sender = rank_at(node * per_node_ + local, etp_rank(runtime));
        received += rows_to(counts, sender, chunk, ep_rank(runtime));
      }
      move.recv.push_back(received);
    }
    return {.move = std::move(move),
            .source = index_tensor(runtime, order.source_R),
            .restore = index_tensor(runtime, order.restore_N)};
  }

  std::int64_t per_node_;
  std::int64_t nodes_;
  AxisGroup across_, within_;
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
std::unique_ptr<Dispatcher> make_node_dispatcher(const ExpertGroup& group, std::int64_t num_experts,
                                                 const DispatchConfig& config,
                                                 std::int64_t ep_per_node) {
  return std::make_unique<NodeDispatcher>(group, num_experts, config, ep_per_node);
}

}  // namespace tessera
