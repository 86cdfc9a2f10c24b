#include "moe/train/simulate.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "absl/strings/str_format.h"
#include "capture/capture.h"
#include "kernels/shapes_device.h"
#include "moe/layer/capacity.h"
#include "moe/layer/forced_routing.h"
#include "moe/layer/simulated_peers.h"
#include "runtime/sim/sim_world.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using Numbers = std::vector<std::int64_t>;

/// What other ranks send of the routing, told by arithmetic.
class ForcedPeers {
 public:
  void set_model(Model& model) {
    model_ = &model;
    const std::vector<MoeLayer*> layers = model.moe_layers();  // whose dispatchers are alike
    if (layers.empty()) return;
    routing_.emplace(model.context().model);
    routed_.emplace(
        layers[0]->experts().dispatcher(),
        SimulatedPeers::Setting{.top_k = model.context().model.router_top_k,
                                .rank = model.context().runtime.rank(),
                                .ids_of = [this](std::int64_t rank) { return ids_of(rank); }});
  }

  /// A dispatcher's counts and ids are what every rank would send. A sum gets this rank's own
  /// summand, so that what is divided by it, or its logarithm, stays finite.
  void arrive(const CollectiveCall& call, std::span<const std::int64_t> ranks) const {
    if (call.out().is_null() || model_ == nullptr) return;
    const bool holds_values =
        !is_floating(call.out().dtype()) || call.out().num_bytes() <= kShapesValueBytes;
    if (call.kind() == Kind::kAllReduce && holds_values &&
        call.out().bytes() != call.in().bytes()) {
      std::memcpy(call.out().bytes(), call.in().bytes(),
                  static_cast<std::size_t>(call.in().num_bytes()));
    }
    Runtime& runtime = model_->context().runtime;
    if (runtime.events().module().ends_with(".routed_experts")) routed_->arrive(call, ranks);
  }

 private:
  /// The experts of this rank's tokens and of others', token by token, `top_k` each.
  Numbers ids_of(std::int64_t rank) const {
    const ModelContext& context = model_->context();
    const ModelConfig& c = context.model;
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
            routing_->append_experts(token, ids);
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

  const Model* model_ = nullptr;
  std::optional<ForcedRouting> routing_;
  std::optional<SimulatedPeers> routed_;
};

/// Rows of the fullest expert of `tokens` tokens from `first` on.
std::int64_t most_rows(const ModelConfig& config, std::int64_t first, std::int64_t tokens) {
  const ForcedRouting routing(config);
  Numbers ids, rows(static_cast<std::size_t>(config.num_experts), 0);
  for (std::int64_t token = first; token < first + tokens; ++token) {
    ids.clear();
    routing.append_experts(token, ids);
    for (const std::int64_t expert : ids) ++rows[static_cast<std::size_t>(expert)];
  }
  return *std::ranges::max_element(rows);
}

/// A capacity has room for all rows of every expert, whatever tokens share it.
Status check_room(const ModelConfig& config, const PipelinePlan& plan) {
  const std::int64_t seq = config.seq;
  const auto check = [&](std::int64_t first, std::int64_t tokens) {
    const std::int64_t room = expert_capacity(config, tokens);
    const std::int64_t rows = most_rows(config, first, tokens);
    if (rows <= room) return Status();
    return invalid_argument(absl::StrFormat(
        "simulation: capacity_factor %g has room for %d of the %d rows of the fullest expert, and "
        "what it drops depends on data; leave it out, or let it be at least %.4g",
        *config.routing.capacity_factor, room, rows,
        static_cast<double>(rows * config.num_experts) /
            static_cast<double>(tokens * config.router_top_k)));
  };
  std::set<std::int64_t> sizes;
  for (const MicroBatch& piece : plan.micro_batches) sizes.insert(piece.rows);
  if (config.routing.capacity_scope == CapacityScope::kMicrobatch) {
    for (const std::int64_t rows : sizes) TSR_RETURN_IF_ERROR(check(0, rows * seq));
    return absl::OkStatus();
  }
  for (std::int64_t row = 0; row < *sizes.rbegin(); ++row) {
    TSR_RETURN_IF_ERROR(check(row * seq, seq));
  }
  return absl::OkStatus();
}

Status check(const ModelConfig& config, const ParallelConfig& parallel) {
  if (!config.routing.is_forced()) {
    return invalid_argument(
        "simulation: force_balance must be true in the config, or forced_loads be given; other "
        "routing depends on data");
  }
  if (config.pad_id) {
    return invalid_argument(absl::StrFormat(
        "simulation: pad_id is %d; it must be null, for padding depends on data", *config.pad_id));
  }
  const std::optional<double> factor = config.routing.capacity_factor;
  if (factor && !config.routing.pad_to_capacity) {
    return invalid_argument(absl::StrFormat(
        "simulation: capacity_factor %g: what it drops depends on data; leave it out, or let "
        "pad_to_capacity be true and the factor have room for all rows",
        *factor));
  }
  TSR_ASSIGN_OR_RETURN(const PipelinePlan plan, plan_pipeline(config, parallel));
  return factor ? check_room(config, plan) : absl::OkStatus();
}

std::string describe(const std::vector<Flow>& flows) {
  std::string text;
  for (const Flow& flow : flows) text += absl::StrFormat(" %d:%d", flow.rank, flow.bytes);
  return text;
}

/// Transfers and host reads as lines, in the order in which they were begun.
std::vector<std::string> lines_of(std::span<const Event> events) {
  std::vector<const Event*> begun;
  for (const Event& event : events) {
    if (event.kind == Event::Kind::kCollective || event.kind == Event::Kind::kHostRead) {
      begun.push_back(&event);
    }
  }
  std::ranges::stable_sort(begun, {}, &Event::start_us);
  std::vector<std::string> lines;
  for (const Event* event : begun) {
    lines.push_back(absl::StrFormat(
        "%s %s @%s in %s at %s:%d: sent %d (%s), received %d (%s)", event->name, event->tensor,
        event->axes, event->module, event->file, event->line, event->bytes_sent,
        describe(event->trace.sent), event->bytes_received, describe(event->trace.received)));
  }
  return lines;
}

/// The first line that differs; empty where there is none.
std::string first_difference(std::span<const Event> executed, std::span<const Event> simulated) {
  const std::vector<std::string> done = lines_of(executed), said = lines_of(simulated);
  const auto [a, b] = std::ranges::mismatch(done, said);
  if (a == done.end() && b == said.end()) return "";
  return absl::StrFormat("event %d of %d: executed %s, simulated %s", a - done.begin(), done.size(),
                         a == done.end() ? "nothing" : *a, b == said.end() ? "nothing" : *b);
}

/// Calls `run` with a trainer before its first step, of the rank at `place`.
Status with_simulated_trainer(const ModelConfig& config, const ParallelConfig& parallel,
                              const SimulatedPlace& place, const TokenData& data,
                              const std::function<void(Model&, Trainer&)>& run) {
  TSR_ASSIGN_OR_RETURN(const MeshViews views, MeshViews::make(parallel, place.num_ranks));
  TSR_RETURN_IF_ERROR(check(config, views.config()));
  ForcedPeers peers;
  SimOptions options;
  options.value_bytes = std::numeric_limits<std::int64_t>::max();
  options.device = &shapes_device();
  options.arrive = [&](const CollectiveCall& call, std::span<const std::int64_t> ranks) {
    peers.arrive(call, ranks);
  };
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<World> world,
                       make_sim_world(place.rank, place.num_ranks, options));
  try {
    Runtime runtime(*world, place.topology);
    Model model(runtime, views, config, place.dtype);
    model.parameters().initialize(0);
    peers.set_model(model);
    Trainer trainer(model, data);
    trainer.optimizer().state_tensors();  // there in every step but the first
    runtime.events().clear();
    runtime.events().trace(std::numeric_limits<std::int64_t>::max(), world->allocator());
    run(model, trainer);
    return absl::OkStatus();
  } catch (const Error& error) {
    return error.status();
  }
}

/// What is there before a step.
void declare_state(Capture& captured, Model& model, Trainer& trainer) {
  const auto module_of = [](const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
  };
  for (const Parameter& each : model.parameters().all()) {
    captured.declare(each.stored(), ValueRole::kParameter, each.name(), module_of(each.name()));
  }
  constexpr std::string_view kPrefix = "optimizer.";
  for (const NamedTensor& each : trainer.optimizer().state_tensors()) {
    const std::string parameter = module_of(each.name.substr(kPrefix.size()));
    captured.declare(each.tensor, ValueRole::kState, each.name, module_of(parameter));
  }
}

}  // namespace

StatusOr<SimulatedStep> simulate_step(const ModelConfig& config, const ParallelConfig& parallel,
                                      const SimulatedPlace& place, const TokenData& data) {
  SimulatedStep step;
  TSR_RETURN_IF_ERROR(
      with_simulated_trainer(config, parallel, place, data, [&](Model& model, Trainer& trainer) {
        trainer.step(0);
        Runtime& runtime = model.context().runtime;
        step = {runtime.events().events(), memory_use_of(*runtime.world().allocator()).peak_bytes};
      }));
  return step;
}

StatusOr<Program> trace_step(const ModelConfig& config, const ParallelConfig& parallel,
                             const SimulatedPlace& place, const TokenData& data) {
  Program program;
  TSR_RETURN_IF_ERROR(
      with_simulated_trainer(config, parallel, place, data, [&](Model& model, Trainer& trainer) {
        Capture captured(model.context().runtime, "step");
        declare_state(captured, model, trainer);
        trainer.step(0);
        program = captured.finish();
      }));
  program.source = {.kind = "train", .by = {}, .command = {}};
  program.routing = config.routing.force_balance ? "balanced" : "forced_loads";
  return program;
}

std::string difference_from_simulation(Runtime& runtime, const ModelConfig& config,
                                       const ParallelConfig& parallel, const TokenData& data,
                                       DType dtype) {
  World& world = runtime.world();
  Model model(runtime, value_or_throw(MeshViews::make(parallel, world.size())), config, dtype);
  model.parameters().initialize(0);
  Trainer trainer(model, data);
  runtime.events().clear();
  runtime.events().trace(std::numeric_limits<std::int64_t>::max(), world.allocator());
  trainer.step(0);
  const SimulatedStep simulated = value_or_throw(simulate_step(config, parallel,
                                                               {.rank = world.rank(),
                                                                .num_ranks = world.size(),
                                                                .dtype = dtype,
                                                                .topology = runtime.topology()},
                                                               data));
  return first_difference(runtime.events().events(), simulated.events);
}

}  // namespace tessera
