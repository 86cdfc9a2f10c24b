#include "moe/simulate.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "absl/strings/str_format.h"
#include "moe/dispatch.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using Numbers = std::vector<std::int64_t>;

/// What other ranks send of the routing, told by arithmetic.
class ForcedPeers {
 public:
  void set_model(const Model& model) { model_ = &model; }

  /// A dispatcher's counts and ids are what every rank would send. A sum gets this rank's own
  /// summand, so that what is divided by it, or its logarithm, stays finite.
  void arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
    if (call.out.is_null() || model_ == nullptr) return;
    if (call.kind == Kind::kAllReduce && call.out.bytes() != call.in.bytes()) {
      std::memcpy(call.out.bytes(), call.in.bytes(), static_cast<std::size_t>(call.in.num_bytes()));
    }
    Runtime& runtime = model_->context().runtime;
    const bool routes = runtime.events().module().ends_with(".routed_experts");
    if (call.out.dtype() != DType::kI64 || !routes) return;
    if (call.kind == Kind::kAllToAll) fill_counts(call, ranks);
    if (call.kind == Kind::kAllGather) fill_gathered(call, ranks);
  }

 private:
  /// The experts of this rank's tokens and of others', token by token, `top_k` each.
  Numbers ids_of(std::int64_t rank) const {
    const ModelContext& context = model_->context();
    const ModelConfig& c = context.config;
    const Shape shape = {sequences(), c.seq};
    const Mesh& mesh = context.views.dense();
    const Spec spec = value_or_throw(Spec::make(mesh, shape, DType::kI64, context.routed_tokens()));
    const Coord coord = *mesh.coord_of(rank);
    const auto runs = [&](std::size_t dim) {
      return local_intervals(mesh, shape[dim], spec.layout().dims[dim], coord);
    };
    const Numbers positions = context.token_order().positions();
    Numbers ids;
    for (const Interval& rows : runs(0)) {
      for (std::int64_t row = rows.start; row < rows.stop; ++row) {
        for (const Interval& places : runs(1)) {
          for (std::int64_t place = places.start; place < places.stop; ++place) {
            const std::int64_t token = row * c.seq + positions[static_cast<std::size_t>(place)];
            for (std::int64_t k = 0; k < c.router_top_k; ++k) {
              ids.push_back((token * c.router_top_k + k) % c.num_experts);
            }
          }
        }
      }
    }
    return ids;
  }
  /// Of the micro-batch whose pass runs: the trainer numbers them, and a recomputed one has its
  /// number.
  std::int64_t sequences() const {
    const std::vector<MicroBatch>& pieces = model_->plan().micro_batches;
    return pieces[model_->context().runtime.pass % pieces.size()].rows;
  }
  std::int64_t num_chunks() const { return model_->context().views.config().dispatch.chunks; }
  /// Rows for each expert, chunk by chunk.
  Numbers counts_of(std::int64_t rank) const {
    const ModelConfig& c = model_->context().config;
    const Numbers ids = ids_of(rank);
    const std::int64_t tokens = static_cast<std::int64_t>(ids.size()) / c.router_top_k;
    Numbers counts;
    for (std::int64_t chunk = 0; chunk < num_chunks(); ++chunk) {
      const TokenRange range = chunk_of(tokens, num_chunks(), chunk);
      const std::size_t before = counts.size();
      counts.resize(before + static_cast<std::size_t>(c.num_experts), 0);
      for (std::int64_t slot = range.begin * c.router_top_k; slot < range.end * c.router_top_k;
           ++slot) {
        ++counts[before + static_cast<std::size_t>(ids[static_cast<std::size_t>(slot)])];
      }
    }
    return counts;
  }
  /// Where the experts of this rank begin.
  std::int64_t first_expert() const {
    const ModelContext& context = model_->context();
    const std::vector<int> ep = context.views.sparse_axes({"ep"});
    const Coord coord = *context.views.sparse().coord_of(context.runtime.rank());
    const std::int64_t ranks = context.views.ep();
    const std::int64_t chunk = (context.config.num_experts + ranks - 1) / ranks;
    return std::min(context.config.num_experts, chunk * coord[static_cast<std::size_t>(ep[0])]);
  }

  /// Ranks whose tokens reach their experts by way of `rank`: under the hierarchical dispatcher
  /// those of the same place in each node, else itself.
  Numbers sent_through(std::int64_t rank) const {
    const MeshViews& views = model_->context().views;
    const DispatchConfig& dispatch = views.config().dispatch;
    const bool nodes = dispatch.kind == DispatcherKind::kHierarchical &&
                       dispatch.ranks_per_node < views.ep() * views.etp();
    if (!nodes) return {rank};
    const std::vector<int> ep = views.sparse_axes({"ep"});
    const auto axis = static_cast<std::size_t>(ep[0]);
    const std::int64_t per_node = dispatch.ranks_per_node / views.etp();
    Coord coord = *views.sparse().coord_of(rank);
    Numbers ranks;
    for (std::int64_t at = coord[axis] % per_node; at < views.ep(); at += per_node) {
      coord[axis] = at;
      ranks.push_back(views.sparse().rank_of(coord));
    }
    return ranks;
  }
  /// From each rank its counts of this rank's experts, chunk by chunk.
  void fill_counts(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
    const std::int64_t num_experts = model_->context().config.num_experts;
    std::int64_t* out = call.out.data<std::int64_t>();
    std::fill_n(out, call.out.num_elements(), 0);
    for (std::size_t peer = 0; peer < ranks.size(); ++peer) {
      const std::int64_t own = call.recv_splits[peer] / num_chunks();
      for (const std::int64_t sender : sent_through(ranks[peer])) {
        const Numbers counts = counts_of(sender);
        for (std::int64_t i = 0; i < own * num_chunks(); ++i) {
          const std::int64_t expert = first_expert() + i % own;
          out[i] += counts[static_cast<std::size_t>(i / own * num_experts + expert)];
        }
      }
      out += call.recv_splits[peer];
    }
  }
  /// From each rank the experts of its tokens.
  void fill_gathered(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
    std::int64_t* out = call.out.data<std::int64_t>();
    for (const std::int64_t rank : ranks) {
      const Numbers ids = ids_of(rank);
      out = std::copy(ids.begin(), ids.end(), out);
    }
  }

  const Model* model_ = nullptr;
};

Status check(const ModelConfig& config, const ParallelConfig& parallel) {
  if (!config.routing.force_balance) {
    return invalid_argument(
        "simulation: force_balance must be true in the config; other routing depends on data");
  }
  if (config.pad_id) {
    return invalid_argument(absl::StrFormat(
        "simulation: pad_id is %d; it must be null, for padding depends on data", *config.pad_id));
  }
  const std::optional<double> factor = config.routing.capacity_factor;
  if (factor && (*factor < 1.0 || !config.routing.pad_to_capacity)) {
    return invalid_argument(absl::StrFormat(
        "simulation: capacity_factor %g: what it drops depends on data; leave it out, or let "
        "pad_to_capacity be true and the factor at least 1, with which balanced routing drops "
        "nothing",
        *factor));
  }
  return plan_pipeline(config, parallel).status();
}

}  // namespace

StatusOr<SimulatedStep> simulate_step(const ModelConfig& config, const ParallelConfig& parallel,
                                      const SimulatedPlace& place, const TokenData& data) {
  TSR_ASSIGN_OR_RETURN(const MeshViews views, MeshViews::make(parallel, place.num_ranks));
  TSR_RETURN_IF_ERROR(check(config, views.config()));
  ForcedPeers peers;
  SimOptions options;
  options.value_bytes = std::numeric_limits<std::int64_t>::max();
  options.arrive = [&](const CollectiveCall& call, std::span<const std::int64_t> ranks) {
    peers.arrive(call, ranks);
  };
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                       make_sim_world(place.rank, place.num_ranks, options));
  try {
    Runtime runtime(*world);
    Model model(runtime, views, config, place.dtype);
    model.parameters().initialize(0);
    peers.set_model(model);
    Trainer trainer(model, data);
    runtime.events().clear();
    runtime.events().trace(std::numeric_limits<std::int64_t>::max(), world->allocator());
    trainer.step(0);
    return SimulatedStep{runtime.events().events(), runtime.events().totals(),
                         memory_use_of(*world->allocator()).peak_bytes};
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace tessera
