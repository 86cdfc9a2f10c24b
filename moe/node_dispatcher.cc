#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/ops.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "moe/exchange_dispatcher.h"
#include "moe/expert_blocks.h"

namespace tessera {
namespace {

/// One chunk's ways: a row for each node that holds experts of a token, and there one for each of
/// these experts.
struct NodeSteps {
  RowPlaces crossing;  ///< of tokens; its slots are token · nodes + node
  RowMove across;
  RowPlaces spread;  ///< of the rows that came across; its slots are row · K + k
  RowMove within;
  std::optional<RowMove> along_etp;
  ExpertOrder order;
};

class NodeRoute final : public Route {
 public:
  explicit NodeRoute(NodeSteps steps) : steps_(std::move(steps)) {}

  void begin(const DTensor& x_TD) override {
    pending_ = begin_move(take_rows(x_TD, steps_.crossing), steps_.across);
  }
  ExpertRows arrive() override {
    DTensor rows = move_rows(take_rows(pending_.finish(), steps_.spread), steps_.within);
    if (steps_.along_etp) rows = move_rows(rows, *steps_.along_etp);
    return {reorder_rows(rows, steps_.order.source_R, steps_.order.restore_N),
            steps_.order.counts_e};
  }
  /// A node's rows of a token are summed in it, in score precision, as weights tell, which go the
  /// way of their token.
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    dtype_ = y_RD.dtype();
    DTensor rows = reorder_rows(y_RD, steps_.order.restore_N, steps_.order.source_R);
    if (steps_.along_etp) rows = move_rows(rows, steps_.along_etp->reversed());
    rows = move_rows(rows, steps_.within.reversed());
    const DTensor weights = move_rows(take_rows(weights_TK, steps_.crossing), steps_.across);
    pending_ = begin_move(sum_rows(rows, weights, steps_.spread, weights.dtype()),
                          steps_.across.reversed());
  }
  DTensor finish_return() override {
    const DTensor out = add_rows(pending_.finish(), steps_.crossing);
    return out.dtype() == dtype_ ? out : cast(out, dtype_);
  }

 private:
  NodeSteps steps_;
  PendingRows pending_;
  DType dtype_ = DType::kF32;
};

/// Where a rank stands among those that share one set of experts.
struct NodePlace {
  std::int64_t node = 0, local = 0, etp = 0;
};

/// Experts of the tokens that pass through this rank: those of the ranks in its place of each node.
struct PassingIds {
  Indices values;
  Indices tokens;  ///< by node
  std::int64_t top_k = 1, chunks = 1;
  std::vector<std::optional<ExpertRoom>> rooms;  ///< by chunk

  TokenRange range(std::int64_t node, std::int64_t chunk) const {
    return chunk_of(tokens[static_cast<std::size_t>(node)], chunks, chunk);
  }
  std::span<const std::int64_t> of(std::int64_t node, std::int64_t chunk) const {
    const TokenRange at = range(node, chunk);
    const std::int64_t before = sum_of({tokens.begin(), tokens.begin() + node});
    return std::span(values).subspan(static_cast<std::size_t>((before + at.begin) * top_k),
                                     static_cast<std::size_t>(at.size() * top_k));
  }
};

/// Tokens with an expert among `experts`, in order.
Indices tokens_with(std::span<const std::int64_t> ids_TK, std::int64_t top_k,
                    const ExpertRange& experts) {
  Indices tokens;
  for (std::size_t slot = 0; slot < ids_TK.size(); ++slot) {
    const std::int64_t token = static_cast<std::int64_t>(slot) / top_k;
    if (!experts.contains(ids_TK[slot]) || (!tokens.empty() && tokens.back() == token)) continue;
    tokens.push_back(token);
  }
  return tokens;
}

/// What comes across to this rank in a chunk.
struct Passage {
  Indices rows_by_node;
  std::vector<Indices> slots_by_expert;  ///< of the node's experts: row · K + k
  Indices wanted_by_expert;              ///< rows, those too that found no room across
};

class NodeDispatcher final : public Dispatcher {
 public:
  NodeDispatcher(const ExpertGroup& group, std::int64_t num_experts, const DispatchConfig& config,
                 std::int64_t ep_per_node)
      : Dispatcher(group, num_experts, config),
        held_(experts_by_rank(num_experts, group.ep_size())),
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
    node_ = within_;
    for (const int axis : group.etp_axes) {
      node_.axes.push_back(axis > group.ep_axes[0] ? axis + 1 : axis);
    }
  }

  RoutePlan plan(const RoutedTokens& tokens) const override {
    Runtime& runtime = tokens.ids_TK.runtime();
    const NoGrad no_grad(runtime);
    check(tokens);
    const NodePlace self = place_of(runtime);
    PassingIds ids = {.tokens = tokens_through(self, tokens.tokens_by_rank),
                      .top_k = tokens.ids_TK.size(1),
                      .chunks = config().chunks};
    for (std::int64_t c = 0; c < ids.chunks; ++c) {
      ids.rooms.push_back(room_in_chunk(tokens, ids.chunks, c));
    }
    const Indices counts = exchange(tokens.ids_TK, self, ids);
    RoutePlan plan;
    std::int64_t needed = 0;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      plan.chunks.push_back(ids.range(self.node, c));
      const Passage passage = passage_of(self, ids, c);
      plan.routes.push_back(
          std::make_unique<NodeRoute>(steps_of(runtime, ids, c, passage, counts)));
      needed = std::max(needed, rows_needed(self, ids, c, passage));
    }
    if (config().rows_bound > 0) {
      const std::int64_t rows[] = {needed};
      plan.rows_needed = index_tensor(runtime, rows);
    }
    return plan;
  }

 private:
  void check(const RoutedTokens& tokens) const {
    if (static_cast<std::int64_t>(tokens.tokens_by_rank.size()) == group().size()) return;
    throw Error(
        invalid_argument(absl::StrFormat("dispatch: the hierarchical dispatcher needs the tokens "
                                         "of all %d ranks that share experts, "
                                         "not of %d",
                                         group().size(), tokens.tokens_by_rank.size())));
  }
  NodePlace place_of(Runtime& runtime) const {
    const std::int64_t ep = position_along(group().mesh, group().ep_axes, runtime.rank());
    return {.node = ep / per_node_,
            .local = ep % per_node_,
            .etp = position_along(group().mesh, group().etp_axes, runtime.rank())};
  }
  ExpertRange experts_of_node(std::int64_t node) const {
    return experts_of(held_, node * per_node_, per_node_);
  }
  ExpertRange experts_in_node(const NodePlace& self, std::int64_t local) const {
    return experts_of(held_, self.node * per_node_ + local);
  }
  Indices tokens_through(const NodePlace& self,
                         std::span<const std::int64_t> tokens_by_rank) const {
    Indices tokens;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const std::int64_t rank = (node * per_node_ + self.local) * group().etp_size() + self.etp;
      tokens.push_back(tokens_by_rank[static_cast<std::size_t>(rank)]);
    }
    return tokens;
  }

  /// Room for rows of a chunk from one rank of `from` to the node `to`; empty: any number.
  std::optional<std::int64_t> room_across(const PassingIds& ids, std::int64_t chunk,
                                          std::int64_t from, std::int64_t to) const {
    const std::int64_t tokens = ids.range(from, chunk).size();
    if (const auto& room = ids.rooms[static_cast<std::size_t>(chunk)]) {
      return std::min(tokens, room->of_sender * experts_of_node(to).size);
    }
    if (config().rows_bound == 0) return std::nullopt;
    return std::min(tokens, config().rows_bound / (nodes_ * config().chunks));
  }
  /// The same within the node, to the rank of `experts`.
  std::optional<std::int64_t> room_within(const PassingIds& ids, std::int64_t chunk,
                                          const ExpertRange& experts) const {
    if (const auto& room = ids.rooms[static_cast<std::size_t>(chunk)]) {
      return nodes_ * room->of_sender * experts.size;
    }
    if (config().rows_bound == 0) return std::nullopt;
    return config().rows_bound / (per_node_ * config().chunks);
  }

  /// Fills in ids.values; returns the rows that each rank of the node has for this rank's experts:
  /// by rank, chunk, expert. Both are what an exact pass reads on the host, at once; a recomputed
  /// one must see the same.
  Indices exchange(const DTensor& ids_TK, const NodePlace& self, PassingIds& ids) const {
    Runtime& runtime = ids_TK.runtime();
    const Indices both = kept_values(runtime, [&]() -> Indices {
      const DTensor passing = move_rows(
          ids_TK, {.kind = RowMove::Kind::kAllGather, .group = across_, .send = ids.tokens});
      ids.values = values_of(passing);
      const DTensor counts = exchange_counts(runtime, self, ids);
      if (config().rows_bound == 0 && !ids.rooms[0]) log_host_read(runtime, "moe.dispatch.counts");
      const Indices own = values_of(counts);
      Indices all = ids.values;
      all.insert(all.end(), own.begin(), own.end());
      return all;
    });
    const auto counts = both.begin() + sum_of(ids.tokens) * ids.top_k;
    ids.values.assign(both.begin(), counts);
    return {counts, both.end()};
  }
  /// Tells every rank of the node what this one will pass on to it.
  DTensor exchange_counts(Runtime& runtime, const NodePlace& self, const PassingIds& ids) const {
    std::vector<Passage> passages;
    for (std::int64_t c = 0; c < ids.chunks; ++c) passages.push_back(passage_of(self, ids, c));
    const std::int64_t first = experts_of_node(self.node).begin;
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = node_};
    Indices sent;
    for (std::int64_t peer = 0; peer < per_node_ * group().etp_size(); ++peer) {
      const ExpertRange experts = experts_in_node(self, peer / group().etp_size());
      for (const Passage& passage : passages) {
        for (std::int64_t e = experts.begin; e < experts.end(); ++e) {
          const Indices& slots = passage.slots_by_expert[static_cast<std::size_t>(e - first)];
          sent.push_back(static_cast<std::int64_t>(slots.size()));
        }
      }
      move.send.push_back(experts.size * ids.chunks);
      move.recv.push_back(experts_in_node(self, self.local).size * ids.chunks);
    }
    return move_rows(index_tensor(runtime, sent), move);
  }

  Passage passage_of(const NodePlace& self, const PassingIds& ids, std::int64_t chunk) const {
    const ExpertRange experts = experts_of_node(self.node);
    const auto num_experts = static_cast<std::size_t>(experts.size);
    Passage passage{.rows_by_node = {},
                    .slots_by_expert = std::vector<Indices>(num_experts),
                    .wanted_by_expert = Indices(num_experts, 0)};
    std::int64_t first_row = 0;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const std::span<const std::int64_t> chosen = ids.of(node, chunk);
      const Indices tokens = tokens_with(chosen, ids.top_k, experts);
      const auto came = static_cast<std::int64_t>(tokens.size());
      const std::int64_t rows = room_across(ids, chunk, node, self.node).value_or(came);
      for (std::int64_t i = 0; i < came; ++i) {
        for (std::int64_t k = 0; k < ids.top_k; ++k) {
          const auto slot = tokens[static_cast<std::size_t>(i)] * ids.top_k + k;
          const std::int64_t expert = chosen[static_cast<std::size_t>(slot)];
          if (!experts.contains(expert)) continue;
          const auto at = static_cast<std::size_t>(expert - experts.begin);
          ++passage.wanted_by_expert[at];
          if (i < rows) passage.slots_by_expert[at].push_back((first_row + i) * ids.top_k + k);
        }
      }
      passage.rows_by_node.push_back(rows);
      first_row += rows;
    }
    return passage;
  }

  NodeSteps steps_of(Runtime& runtime, const PassingIds& ids, std::int64_t chunk,
                     const Passage& passage, std::span<const std::int64_t> counts) const {
    NodeSteps steps;
    set_crossing(runtime, ids, chunk, steps);
    steps.across.recv = passage.rows_by_node;
    set_spread(runtime, ids, chunk, passage, steps);
    set_arrival(runtime, ids, chunk, counts, steps);
    return steps;
  }

  /// The rows that this rank sends: node by node, tokens in order.
  void set_crossing(Runtime& runtime, const PassingIds& ids, std::int64_t chunk,
                    NodeSteps& steps) const {
    const std::int64_t own = place_of(runtime).node;
    const std::int64_t tokens = ids.range(own, chunk).size();
    steps.across = {.kind = RowMove::Kind::kAllToAll, .group = across_};
    Indices slots;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const Indices wanted = tokens_with(ids.of(own, chunk), ids.top_k, experts_of_node(node));
      const auto rows = static_cast<std::int64_t>(wanted.size());
      const std::int64_t sent = room_across(ids, chunk, own, node).value_or(rows);
      for (std::int64_t i = 0; i < std::min(rows, sent); ++i) {
        slots.push_back(wanted[static_cast<std::size_t>(i)] * nodes_ + node);
      }
      slots.resize(slots.size() + static_cast<std::size_t>(std::max(sent - rows, std::int64_t{0})),
                   -1);
      steps.across.send.push_back(sent);
    }
    steps.crossing = places_of(runtime, slots, tokens * nodes_, nodes_);
  }
  /// The rows that this rank passes on: by expert, as they came.
  void set_spread(Runtime& runtime, const PassingIds& ids, std::int64_t chunk,
                  const Passage& passage, NodeSteps& steps) const {
    const NodePlace self = place_of(runtime);
    const std::int64_t first = experts_of_node(self.node).begin;
    steps.within = {.kind = RowMove::Kind::kAllToAll, .group = within_};
    Indices slots;
    for (std::int64_t local = 0; local < per_node_; ++local) {
      const ExpertRange experts = experts_in_node(self, local);
      const std::size_t before = slots.size();
      for (std::int64_t e = experts.begin; e < experts.end(); ++e) {
        const Indices& own = passage.slots_by_expert[static_cast<std::size_t>(e - first)];
        slots.insert(slots.end(), own.begin(), own.end());
      }
      const auto room = room_within(ids, chunk, experts);
      if (room) slots.resize(before + static_cast<std::size_t>(*room), -1);
      steps.within.send.push_back(static_cast<std::int64_t>(slots.size() - before));
    }
    const std::int64_t came = sum_of(passage.rows_by_node);
    steps.spread = places_of(runtime, slots, came * ids.top_k, ids.top_k);
  }
  /// The rows that this rank's experts get: from each etp rank of the node's, and those of its own
  /// etp rank from the node itself.
  void set_arrival(Runtime& runtime, const PassingIds& ids, std::int64_t chunk,
                   std::span<const std::int64_t> counts, NodeSteps& steps) const {
    const NodePlace self = place_of(runtime);
    const ExpertRange own = experts_in_node(self, self.local);
    const std::int64_t num_local = own.size;
    const auto room = room_within(ids, chunk, own);
    const std::int64_t etp = group().etp_size();
    BlockWriter blocks(room);
    Indices gathered;
    for (std::int64_t peer = 0; peer < etp; ++peer) {
      const std::int64_t before = blocks.num_rows();
      for (std::int64_t local = 0; local < per_node_; ++local) {
        const std::int64_t from = ((local * etp + peer) * config().chunks + chunk) * num_local;
        const auto rows =
            counts.subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(num_local));
        blocks.begin_sender();
        for (const std::int64_t each : rows) blocks.add(each);
        if (peer == self.etp) {
          steps.within.recv.push_back(room.value_or(sum_of(rows)));
        }
      }
      gathered.push_back(blocks.num_rows() - before);
    }
    if (etp > 1) {
      steps.along_etp = RowMove{
          .kind = RowMove::Kind::kAllGather, .group = group().etp(), .send = std::move(gathered)};
    }
    OrderedSize size{.alignment = config().expert_alignment};
    if (const auto& expert_room = ids.rooms[static_cast<std::size_t>(chunk)]) {
      size.rows_per_expert = expert_room->of_group;
    } else if (room) {
      size.num_rows = padded_bound(blocks.num_rows(), num_local, size.alignment);
    }
    steps.order = expert_order_of(runtime, blocks, size);
  }

  /// The rows_bound with which the chunk's rows from this rank would all have room.
  std::int64_t rows_needed(const NodePlace& self, const PassingIds& ids, std::int64_t chunk,
                           const Passage& passage) const {
    std::int64_t across = 0;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const Indices tokens =
          tokens_with(ids.of(self.node, chunk), ids.top_k, experts_of_node(node));
      across = std::max(across, static_cast<std::int64_t>(tokens.size()));
    }
    const std::int64_t first = experts_of_node(self.node).begin;
    std::int64_t within = 0;
    for (std::int64_t local = 0; local < per_node_; ++local) {
      const ExpertRange experts = experts_in_node(self, local);
      const auto begin = passage.wanted_by_expert.begin() + (experts.begin - first);
      within = std::max(within, sum_of({begin, begin + experts.size}));
    }
    return std::max(across * nodes_, within * per_node_) * config().chunks;
  }

  Indices held_;  ///< experts by ep rank
  std::int64_t per_node_;
  std::int64_t nodes_;
  AxisGroup across_, within_;
  AxisGroup node_;  ///< all ranks of a node: within_ and etp
};

}  // namespace

std::unique_ptr<Dispatcher> make_node_dispatcher(const ExpertGroup& group, std::int64_t num_experts,
                                                 const DispatchConfig& config,
                                                 std::int64_t ep_per_node) {
  return std::make_unique<NodeDispatcher>(group, num_experts, config, ep_per_node);
}

}  // namespace tessera
