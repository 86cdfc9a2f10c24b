#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "dtensor/ops.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"
#include "kernels/index_search.h"
#include "moe/layer/dispatcher_kinds.h"
#include "moe/layer/expert_blocks.h"
#include "moe/layer/peer_step.h"
#include "moe/layer/simulated_peers.h"

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
  std::optional<PeerStep> peers;  ///< within the node by its memory: in place of the four above
};

class NodeRoute final : public Route {
 public:
  explicit NodeRoute(NodeSteps steps) : steps_(std::move(steps)) {}

  void begin(const DTensor& x_TD) override {
    pending_ = begin_move(take_rows(x_TD, steps_.crossing), steps_.across);
  }
  ExpertRows arrive() override {
    if (steps_.peers) {
      return {move_rows(pending_.finish(), steps_.peers->put), steps_.peers->counts_e};
    }
    DTensor rows = move_rows(take_rows(pending_.finish(), steps_.spread), steps_.within);
    if (steps_.along_etp) rows = move_rows(rows, *steps_.along_etp);
    return {reorder_rows(rows, steps_.order.source_R, steps_.order.restore_N),
            steps_.order.counts_e};
  }
  /// A node's rows of a token are summed in it, in score precision, as weights tell, which go the
  /// way of their token.
  void begin_return(const DTensor& y_RD, const DTensor& weights_TK) override {
    dtype_ = y_RD.dtype();
    const DTensor weights = move_rows(take_rows(weights_TK, steps_.crossing), steps_.across);
    pending_ = begin_move(sums_of(y_RD, weights), steps_.across.reversed());
  }
  DTensor finish_return() override {
    const DTensor out = add_rows(pending_.finish(), steps_.crossing);
    return out.dtype() == dtype_ ? out : cast(out, dtype_);
  }

 private:
  DTensor sums_of(const DTensor& y_RD, const DTensor& weights) const {
    if (steps_.peers) {
      return begin_sum(y_RD, weights, steps_.peers->put.reversed(), weights.dtype()).finish();
    }
    DTensor rows = reorder_rows(y_RD, steps_.order.restore_N, steps_.order.source_R);
    if (steps_.along_etp) rows = move_rows(rows, steps_.along_etp->reversed());
    rows = move_rows(rows, steps_.within.reversed());
    return sum_rows(rows, weights, steps_.spread, weights.dtype());
  }

  NodeSteps steps_;
  PendingRows pending_;
  DType dtype_ = DType::kF32;
};

/// Where a rank stands among those that share one set of experts.
struct NodePlace {
  std::int64_t node = 0, local = 0, etp = 0;
};

/// One chunk of the tokens that pass through this rank: those of the ranks in its place of each
/// node.
struct Passage {
  std::int64_t index = 0;
  std::int64_t top_k = 1;
  Indices tokens_by_node = {};
  std::optional<ExpertRoom> room = {};
  SortedSlots crossing = {};  ///< of this rank's tokens, by node: token · nodes + node
  DTensor came = {};          ///< tokens with an expert in this node, by the node they come from
  SortedSlots spread = {};    ///< of the rows that come across, by expert of the node: row · K + k
  DTensor wanted = {};        ///< rows by expert, those too that find no room; where rows are bound
  /// On the host; empty where sizes are fixed.
  Indices crossing_by_node = {}, came_by_node = {}, rows_by_expert = {};
};

class NodeDispatcher final : public Dispatcher {
 public:
  NodeDispatcher(const DispatcherSetting& setting, NodeShape nodes)
      : Dispatcher(setting),
        held_(experts_by_rank(setting.num_experts, setting.group.ep_size())),
        per_node_(nodes.ep_per_node),
        nodes_(setting.group.ep_size() / per_node_),
        uses_peers_(nodes.within == WithinNode::kMemory) {
    const ExpertGroup& group = setting.group;
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
    if (uses_peers_) check_reach(runtime, layer(), node_);
    const NodePlace self = place_of(runtime);
    const Indices through = tokens_through(self, tokens.tokens_by_rank);
    const DTensor ids = kept_tensor(runtime, [&] {
      return move_rows(tokens.ids_TK,
                       {.kind = RowMove::Kind::kAllGather, .group = across_, .send = through});
    });
    RoutePlan plan;
    std::vector<Passage> passages;
    for (std::int64_t c = 0; c < config().chunks; ++c) {
      plan.chunks.push_back(chunk_of(tokens.ids_TK.size(0), config().chunks, c));
      passages.push_back(passage_of(ids.size(1), through, c));
      passages.back().room = room_in_chunk(tokens, config().chunks, c);
      sort_passage(self, ids, through, passages.back());
    }
    if (uses_peers_) {
      add_peer_routes(runtime, self, passages, plan);
      return plan;
    }
    const CountTable counts = exchange_counts(runtime, self, passages);
    for (const Passage& passage : passages) {
      plan.routes.push_back(std::make_unique<NodeRoute>(steps_of(self, passage, counts)));
    }
    if (config().rows_bound > 0) plan.rows_needed = rows_needed(passages);
    return plan;
  }

  /// Ids come across nodes; then counts of the tokens that passed through each rank of a node: all
  /// to all, or, to write to their memory, all of the node's to each.
  void arrive(const SimulatedPeers& peers, const CollectiveCall& call,
              std::span<const std::int64_t> ranks) const override {
    const auto through = [&](std::int64_t rank) { return same_place_in_nodes(peers, rank); };
    if (call.kind() == CollectiveCall::Kind::kAllToAll) {
      return peers.fill_counts(call, ranks, {peers.ep_rank(), 1}, through);
    }
    const std::int64_t node = peers.ep_rank_of(ranks.front()) / per_node_;
    if (node != peers.ep_rank_of(ranks.back()) / per_node_) return peers.fill_ids(call, ranks);
    peers.fill_counts(call, ranks, {node * per_node_, per_node_}, through);
  }

 private:
  SimulatedPeers::Ranks same_place_in_nodes(const SimulatedPeers& peers, std::int64_t rank) const {
    Coord coord = *group().mesh.coord_of(rank);
    SimulatedPeers::Ranks ranks;
    for (std::int64_t at = peers.ep_rank_of(rank) % per_node_; at < group().ep_size();
         at += per_node_) {
      coord[static_cast<std::size_t>(group().ep_axes[0])] = at;
      ranks.push_back(group().mesh.rank_of(coord));
    }
    return ranks;
  }
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

  bool has_fixed_sizes(const Passage& passage) const {
    return passage.room || config().rows_bound > 0;
  }
  std::int64_t experts_per_node() const { return per_node_ * held_[0]; }

  /// Room for rows of a chunk from one rank of the node `from` to each node, where it is fixed.
  kernels::PartRooms rooms_across(const Passage& passage, std::int64_t from) const {
    kernels::PartRooms rooms = {.parts = nodes_,
                                .most = passage.tokens_by_node[static_cast<std::size_t>(from)]};
    if (passage.room) {
      rooms.rows_per_expert = passage.room->of_sender;
      rooms.experts_per_part = experts_per_node();
      rooms.experts = num_experts();
    } else {
      rooms.most = std::min(rooms.most, config().rows_bound / (nodes_ * config().chunks));
    }
    return rooms;
  }
  /// The same within the node, to each of its ranks.
  kernels::PartRooms rooms_within(const NodePlace& self, const Passage& passage) const {
    kernels::PartRooms rooms = {.parts = per_node_,
                                .keys_per_part = held_[0],
                                .most = std::numeric_limits<std::int64_t>::max()};
    if (passage.room) {
      rooms.rows_per_expert = nodes_ * passage.room->of_sender;
      rooms.experts_per_part = held_[0];
      rooms.experts = experts_of_node(self.node).size;
    } else {
      rooms.most = config().rows_bound / (per_node_ * config().chunks);
    }
    return rooms;
  }

  Passage passage_of(std::int64_t top_k, std::span<const std::int64_t> through,
                     std::int64_t index) const {
    Passage passage{.index = index, .top_k = top_k};
    for (const std::int64_t tokens : through) {
      passage.tokens_by_node.push_back(chunk_of(tokens, config().chunks, index).size());
    }
    return passage;
  }
  /// The chunk's tokens of `ids`, of one node or of all.
  DTensor ids_of(const DTensor& ids, std::span<const std::int64_t> through, std::int64_t chunk,
                 std::optional<std::int64_t> only = {}) const {
    std::vector<DTensor> parts;
    std::int64_t first = 0;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      const std::int64_t tokens = through[static_cast<std::size_t>(node)];
      const TokenRange range = chunk_of(tokens, config().chunks, chunk);
      if (!only || *only == node) {
        parts.push_back(slice(ids, 0, first + range.begin, first + range.end));
      }
      first += tokens;
    }
    return joined(parts);
  }

  void sort_passage(const NodePlace& self, const DTensor& ids,
                    std::span<const std::int64_t> through, Passage& passage) const {
    Runtime& runtime = ids.runtime();
    KernelContext& ctx = runtime.kernels();
    const Array own =
        kernels::contiguous(ctx, ids_of(ids, through, passage.index, self.node).local());
    const DTensor nodes_of_tokens = empty_list(runtime, {own.size(0), nodes_});
    kernels::keys_of_parts(ctx, own, {num_experts(), experts_per_node(), nodes_},
                           nodes_of_tokens.local());
    passage.crossing = sort_keys(nodes_of_tokens, nodes_);

    const Array all = kernels::contiguous(ctx, ids_of(ids, through, passage.index).local());
    const ExpertRange experts = experts_of_node(self.node);
    const std::int64_t slots = all.num_elements();
    kernels::PassedTokens tokens{.experts = {experts.begin, experts.size}};
    std::int64_t next_row = 0;
    for (std::int64_t node = 0; node < nodes_; ++node) {
      kernels::PassedTokens::Part part{passage.tokens_by_node[static_cast<std::size_t>(node)]};
      if (has_fixed_sizes(passage)) {
        part.room = rooms_across(passage, node).of(self.node);
        part.first_row = next_row;
        next_row += part.room;
      }
      tokens.parts.push_back(part);
    }
    const DTensor keys = empty_list(runtime, {slots}), rows = empty_list(runtime, {slots});
    passage.came = empty_list(runtime, {nodes_});
    kernels::slots_of_passed(ctx, all, tokens, {keys.local(), rows.local(), passage.came.local()});
    passage.spread = sort_keys(keys, experts.size);
    passage.spread.slots = picked(rows, passage.spread.slots);
    if (config().rows_bound == 0) return;
    kernels::keys_in_range(ctx, all.try_view({slots}), {experts.begin, experts.size}, keys.local());
    const DTensor wanted = empty_list(runtime, {experts.size + 1});
    kernels::bincount(ctx, keys.local(), {}, kernels::Absent::kError, wanted.local());
    passage.wanted = first_of(wanted, experts.size);
  }

  /// Tells every rank of the node what this one will pass on to it. What an exact pass reads on the
  /// host, it reads at once; a recomputed one must see the same.
  CountTable exchange_counts(Runtime& runtime, const NodePlace& self,
                             std::vector<Passage>& passages) const {
    const std::int64_t first = experts_of_node(self.node).begin;
    RowMove move{.kind = RowMove::Kind::kAllToAll, .group = node_};
    std::vector<ExpertRange> told;
    CountTable table{.chunks = config().chunks,
                     .num_experts = experts_in_node(self, self.local).size};
    for (std::int64_t peer = 0; peer < per_node_ * group().etp_size(); ++peer) {
      const ExpertRange experts = experts_in_node(self, peer / group().etp_size());
      told.push_back({experts.begin - first, experts.size});
      move.send.push_back(experts.size * table.chunks);
      move.recv.push_back(table.num_experts * table.chunks);
    }
    std::vector<DTensor> counts;
    for (const Passage& passage : passages) counts.push_back(passage.spread.counts_K);
    table.received =
        kept_tensor(runtime, [&] { return move_rows(counts_to_send(counts, told), move); });
    if (!has_fixed_sizes(passages.front())) read_sizes(runtime, passages, table);
    return table;
  }
  /// All that an exact pass needs on the host; of one by peers the table says what comes of each
  /// expert.
  void read_sizes(Runtime& runtime, std::vector<Passage>& passages, CountTable& table) const {
    std::vector<DTensor> lists = {table.received};
    for (const Passage& passage : passages) {
      lists.insert(lists.end(), {passage.crossing.counts_K, passage.came});
      if (!uses_peers_) lists.push_back(passage.spread.counts_K);
    }
    const std::vector<Indices> values = read_counts(runtime, lists);
    auto next = values.begin();
    table.values = *next++;
    for (Passage& passage : passages) {
      passage.crossing_by_node = *next++;
      passage.came_by_node = *next++;
      if (!uses_peers_) passage.rows_by_expert = *next++;
    }
  }

  // ---- within a node by its memory

  PeerGroup peers_of(const NodePlace& self) const {
    const auto first = held_.begin() + self.node * per_node_;
    return {.ranks = node_,
            .ep = per_node_,
            .etp = group().etp_size(),
            .ep_rank = self.local,
            .etp_rank = self.etp,
            .held = Indices(first, first + per_node_)};
  }
  /// From counts of what each rank of the node passes on, and, where rows are bound, of what it
  /// would.
  void add_peer_routes(Runtime& runtime, const NodePlace& self, std::vector<Passage>& passages,
                       RoutePlan& plan) const {
    const PeerGroup peers = peers_of(self);
    std::vector<DTensor> lists;
    for (const Passage& passage : passages) lists.push_back(passage.spread.counts_K);
    CountTable counts = gather_counts(runtime, peers, lists);
    if (!has_fixed_sizes(passages.front())) read_sizes(runtime, passages, counts);
    for (const Passage& passage : passages) {
      NodeSteps steps;
      set_crossing(self, passage, steps);
      PeerChunk chunk{
          .sorted = passage.spread, .rows = sum_of(steps.across.recv), .top_k = passage.top_k};
      if (passage.room) chunk.rows_per_expert = passage.room->of_group;
      steps.peers = peer_step(peers, chunk, passage.index, counts, config().expert_alignment,
                              config().rows_bound / config().chunks);
      plan.routes.push_back(std::make_unique<NodeRoute>(std::move(steps)));
    }
    if (config().rows_bound > 0) plan.rows_needed = rows_needed_by_peers(runtime, self, passages);
  }
  /// As rows_needed(), but a rank's rows within the node are bounded in all, not by sender.
  DTensor rows_needed_by_peers(Runtime& runtime, const NodePlace& self,
                               const std::vector<Passage>& passages) const {
    std::vector<DTensor> lists;
    for (const Passage& passage : passages) lists.push_back(passage.wanted);
    const PeerGroup peers = peers_of(self);
    const DTensor wanted = reshape(gather_counts(runtime, peers, lists).received,
                                   {peers.num_ranks(), config().chunks, sum_of(peers.held)});
    const ExpertRange own = experts_of(peers.held, self.local);
    DTensor most;
    for (const Passage& passage : passages) {
      const DTensor of_chunk = slice(wanted, 1, passage.index, passage.index + 1);
      const DTensor within = reshape(sum(slice(of_chunk, 2, own.begin, own.end()), {}), {1});
      const DTensor both = maximum(needed_across(passage), within);
      most = most.defined() ? maximum(most, both) : both;
    }
    return mul(most, static_cast<double>(config().chunks));
  }

  NodeSteps steps_of(const NodePlace& self, const Passage& passage,
                     const CountTable& counts) const {
    NodeSteps steps;
    set_crossing(self, passage, steps);
    set_spread(self, passage, steps);
    set_arrival(self, passage, counts, steps);
    return steps;
  }

  /// The rows that this rank sends: node by node, tokens in order.
  void set_crossing(const NodePlace& self, const Passage& passage, NodeSteps& steps) const {
    const std::int64_t tokens = passage.tokens_by_node[static_cast<std::size_t>(self.node)];
    steps.across = {.kind = RowMove::Kind::kAllToAll, .group = across_};
    DTensor slots;
    if (has_fixed_sizes(passage)) {
      const kernels::PartRooms rooms = rooms_across(passage, self.node);
      slots = packed(passage.crossing, rooms);
      for (std::int64_t node = 0; node < nodes_; ++node) {
        steps.across.send.push_back(rooms.of(node));
        steps.across.recv.push_back(rooms_across(passage, node).of(self.node));
      }
    } else {
      slots = first_of(passage.crossing.slots, sum_of(passage.crossing_by_node));
      steps.across.send = passage.crossing_by_node;
      steps.across.recv = passage.came_by_node;
    }
    steps.crossing = places_of(slots, tokens * nodes_, nodes_);
  }
  /// The rows that this rank passes on: by expert, as they came.
  void set_spread(const NodePlace& self, const Passage& passage, NodeSteps& steps) const {
    steps.within = {.kind = RowMove::Kind::kAllToAll, .group = within_};
    DTensor slots;
    if (has_fixed_sizes(passage)) {
      const kernels::PartRooms rooms = rooms_within(self, passage);
      slots = packed(passage.spread, rooms);
      for (std::int64_t local = 0; local < per_node_; ++local) {
        steps.within.send.push_back(rooms.of(local));
      }
    } else {
      const std::int64_t first = experts_of_node(self.node).begin;
      slots = first_of(passage.spread.slots, sum_of(passage.rows_by_expert));
      for (std::int64_t local = 0; local < per_node_; ++local) {
        const ExpertRange experts = experts_in_node(self, local);
        steps.within.send.push_back(
            sum_of(std::span(passage.rows_by_expert)
                       .subspan(static_cast<std::size_t>(experts.begin - first),
                                static_cast<std::size_t>(experts.size))));
      }
    }
    steps.spread = places_of(slots, sum_of(steps.across.recv) * passage.top_k, passage.top_k);
  }
  /// The rows that this rank's experts get: from each etp rank of the node's, and those of its own
  /// etp rank from the node itself.
  void set_arrival(const NodePlace& self, const Passage& passage, const CountTable& counts,
                   NodeSteps& steps) const {
    Arrival arrival{
        .counts = counts, .chunk = passage.index, .ep = per_node_, .etp = group().etp_size()};
    if (has_fixed_sizes(passage)) arrival.room = rooms_within(self, passage).of(self.local);
    for (std::int64_t local = 0; local < per_node_; ++local) {
      steps.within.recv.push_back(arrival.rows_of(arrival.rank_at(local, self.etp)));
    }
    if (arrival.etp > 1) {
      steps.along_etp = RowMove{
          .kind = RowMove::Kind::kAllGather, .group = group().etp(), .send = arrival.rows_by_etp()};
    }
    OrderedSize size{.alignment = config().expert_alignment};
    if (passage.room) size.rows_per_expert = passage.room->of_group;
    steps.order = expert_order_of(arrival, size);
  }

  DTensor needed_across(const Passage& passage) const {
    return mul(fullest(passage.crossing.counts_K, nodes_, 1), static_cast<double>(nodes_));
  }
  /// The rows_bound with which the rows of every chunk from this rank would all have room.
  DTensor rows_needed(const std::vector<Passage>& passages) const {
    DTensor most;
    for (const Passage& passage : passages) {
      const DTensor within =
          mul(fullest(passage.wanted, per_node_, held_[0]), static_cast<double>(per_node_));
      const DTensor own = maximum(needed_across(passage), within);
      most = most.defined() ? maximum(most, own) : own;
    }
    return mul(most, static_cast<double>(config().chunks));
  }

  Indices held_;  ///< experts by ep rank
  std::int64_t per_node_;
  std::int64_t nodes_;
  bool uses_peers_;  ///< within a node
  AxisGroup across_, within_;
  AxisGroup node_;  ///< all ranks of a node: within_ and etp
};

}  // namespace

std::unique_ptr<Dispatcher> make_node_dispatcher(const DispatcherSetting& setting,
                                                 NodeShape nodes) {
  return std::make_unique<NodeDispatcher>(setting, nodes);
}

}  // namespace tessera
