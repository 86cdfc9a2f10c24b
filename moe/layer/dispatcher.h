// moe/layer/dispatcher.h: tokens to the ranks that hold their experts, and back, inside a region of
// plain tensors. A Dispatcher plans one pass from the chosen experts; each Route of the plan
// carries one chunk of tokens there and back in four calls, between which other work may lie.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtensor/local_map.h"
#include "moe/layer/dispatch.h"
#include "parallel/mesh_views.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct CollectiveCall;
class SimulatedPeers;

/// The ranks that share one set of experts: a mesh and its axes that cut experts and their hidden
/// dim. Every rank has tokens of its own.
struct ExpertGroup {
  Mesh mesh;
  std::vector<int> ep_axes;
  std::vector<int> etp_axes = {};

  AxisGroup ep() const { return {mesh, ep_axes}; }
  AxisGroup etp() const { return {mesh, etp_axes}; }
  /// Both, ep first.
  AxisGroup all() const;
  std::int64_t ep_size() const;
  std::int64_t etp_size() const;
  std::int64_t size() const { return ep_size() * etp_size(); }
};

/// Rows for this rank's experts, by expert; rows behind the last expert's are zeros.
struct ExpertRows {
  DTensor rows_RD;
  DTensor counts_e;  ///< I64, pad rows included
};

/// One chunk's way to the experts and back. Each call once, in this order; of several routes of one
/// plan, each kind of call in the order of the routes.
class Route {
 public:
  virtual ~Route() = default;
  /// Begins to send the chunk's tokens.
  virtual void begin(const DTensor& x_TD) = 0;
  virtual ExpertRows arrive() = 0;
  /// Begins to bring results back. Shapes: y_RD as the rows of arrive() (under etp a summand each),
  /// weights_TK of the chunk's tokens.
  virtual void begin_return(const DTensor& y_RD, const DTensor& weights_TK) = 0;
  /// Σ over a token's experts of weight · row, in score precision, added in the order of k → (T,
  /// D).
  virtual DTensor finish_return() = 0;
};

struct RoutePlan {
  std::vector<TokenRange> chunks;
  std::vector<std::unique_ptr<Route>> routes;  ///< one for each chunk
  /// I64 (1): the least rows_bound that this rank's rows would have needed. Undefined where sizes
  /// are exact.
  DTensor rows_needed;
};

/// Rows that one expert can get at most, known from shapes alone.
struct ExpertRoom {
  std::int64_t of_sender = 0;  ///< from one rank
  std::int64_t of_group = 0;   ///< from all ranks of the expert group
};

/// The tokens of one pass.
struct RoutedTokens {
  DTensor ids_TK;  ///< I64; num_experts marks a slot that goes nowhere
  /// Of every rank of the expert group, in order; `room` and needs_tokens_by_rank() ask for it.
  std::vector<std::int64_t> tokens_by_rank = {};
  /// Every expert gets exactly room.of_group rows in each chunk (at most the chunk's tokens),
  /// filled up with zeros. Requires that no expert has more.
  std::optional<ExpertRoom> room = {};
};

/// What a dispatcher is made for.
struct DispatcherSetting {
  std::string layer;  ///< names it in errors
  ExpertGroup group;
  std::int64_t num_experts = 1;
  DispatchConfig config;
};

/// Thread-safety: none; one for each layer of a rank.
class Dispatcher {
 public:
  explicit Dispatcher(DispatcherSetting setting) : setting_(std::move(setting)) {}
  virtual ~Dispatcher() = default;
  /// The one that `config` asks for (moe/layer/dispatcher_table.h); a group of one rank needs none
  /// of it but alignment and chunks. Errors: InvalidArgument naming the layer: experts < 1,
  /// alignment or chunks < 1, an unknown name, nodes that do not divide the group, a rows_bound
  /// that leaves a sender without a row; Unimplemented for an option that the dispatcher does not
  /// have.
  static StatusOr<std::unique_ptr<Dispatcher>> make(const DispatcherSetting& setting);

  /// Collective: one exchange of counts among the expert group (all_gather: of ids; hierarchical:
  /// of ids across nodes, then of counts within). Host reads: one where sizes are exact, none with
  /// rows_bound, with tokens.room or in a group of one. Throws Error(Unimplemented) for a `room`
  /// that the dispatcher cannot keep.
  virtual RoutePlan plan(const RoutedTokens& tokens) const = 0;

  /// Whether plan() reads tokens_by_rank even without `room`.
  virtual bool needs_tokens_by_rank() const { return true; }

  /// Where only this rank is there (moe/train/simulate.h): fills the I64 result of one of plan()'s
  /// calls with what `ranks` would have sent. Unless overridden an all-to-all tells counts of rows
  /// for this rank's experts, an all-gather the experts of tokens.
  virtual void arrive(const SimulatedPeers& peers, const CollectiveCall& call,
                      std::span<const std::int64_t> ranks) const;

  const std::string& layer() const noexcept { return setting_.layer; }
  std::int64_t num_experts() const noexcept { return setting_.num_experts; }
  const DispatchConfig& config() const noexcept { return setting_.config; }
  const ExpertGroup& group() const noexcept { return setting_.group; }

 private:
  DispatcherSetting setting_;
};

/// A pass of one chunk, as combine() needs it back.
struct Dispatched {
  ExpertRows rows;
  RoutePlan plan;
};
/// plan(), begin() and arrive() of a dispatcher without chunks. Shapes: x_TD.
Dispatched dispatch(const Dispatcher& dispatcher, const DTensor& x_TD, const RoutedTokens& tokens);
/// begin_return() and finish_return().
DTensor combine(const DTensor& y_RD, const DTensor& weights_TK, const Dispatched& dispatched);

}  // namespace tessera
