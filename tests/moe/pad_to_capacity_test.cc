// Experts whose rows are filled up to their capacity: the numbers of unpadded ones, sizes known
// without a host read.
#include <algorithm>

#include "dtensor/factories.h"
#include "moe/layer/capacity.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// 2 micro-batches of 4 x 13 tokens that choose 3 of 8 experts; a part of them is dropped.
std::function<void(ModelConfig&)> with_capacity(CapacityScope scope, bool padded) {
  return [=](ModelConfig& config) {
    shrink(config);
    config.n_dense_layers = 0;
    config.seq = 13;
    config.accum = 2;
    config.routing.capacity_factor = 0.75;
    config.routing.capacity_scope = scope;
    config.routing.pad_to_capacity = padded;
    config.routing.seq_aux_coeff = 0.01;
  };
}

int ranks_of(const ParallelConfig& parallel) {
  return static_cast<int>(parallel.pp * parallel.dp_replicate * parallel.dp_shard * parallel.cp *
                          parallel.tp);
}

/// Of this rank's dispatches in one forward pass.
std::vector<double> forward_reads(Model& model, Trainer&) {
  const ModelContext& context = model.context();
  const Array ids = Array::zeros({4, context.config.seq}, DType::kI64);
  const std::vector<Event>& events = context.runtime.events().events();
  const std::size_t before = events.size();
  const NoGrad no_grad(context.runtime);
  model.logits(context.place_tokens(ids));
  return {static_cast<double>(
      std::count_if(events.begin() + static_cast<std::ptrdiff_t>(before), events.end(),
                    [](const Event& event) { return event.kind == Event::Kind::kHostRead; }))};
}

}  // namespace

TEST_CASE("experts padded to their capacity train like unpadded ones of one rank",
          "[moe][capacity][padding][C30][C31]") {
  static const RunResult reference[] = {
      train({.num_steps = 2, .change_config = with_capacity(CapacityScope::kMicrobatch, false)}),
      train({.num_steps = 2, .change_config = with_capacity(CapacityScope::kSequence, false)})};
  const CapacityScope scope = GENERATE(CapacityScope::kMicrobatch, CapacityScope::kSequence);
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{}, ParallelConfig{.dispatch = {.expert_alignment = 16, .chunks = 2}},
      ParallelConfig{.tp = 2}, ParallelConfig{.dp_shard = 2, .ep = 2},
      ParallelConfig{.tp = 2, .ep = 2, .dispatch = {.chunks = 3}},
      ParallelConfig{.tp = 2, .etp = 2}, ParallelConfig{.cp = 2, .tp = 2, .ep = 4},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 2,
                     .etp = 2,
                     .recompute = Recompute::kSelective,
                     .dispatch = {.expert_alignment = 16, .chunks = 2}},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 4, .dispatch = {.dispatcher = "all_gather"}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2, .chunks = 2}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 2,
                     .etp = 2,
                     .dispatch = {.dispatcher = "all_gather", .chunks = 2}},
      ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2});
  CAPTURE(static_cast<int>(scope), parallel.dp_shard, parallel.cp, parallel.tp, parallel.ep,
          parallel.etp, parallel.dispatch.dispatcher, parallel.dispatch.chunks);
  const RunResult& wanted = reference[scope == CapacityScope::kSequence];
  const RunResult run = train({.parallel = parallel,
                               .num_ranks = ranks_of(parallel),
                               .num_steps = 2,
                               .change_config = with_capacity(scope, true)});
  check_same(run, wanted);
  for (std::size_t step = 0; step < 2; ++step) {
    CHECK(*run.steps[step].routing.dropped > 0);
    CHECK(run.steps[step].routing.dropped == wanted.steps[step].routing.dropped);
  }
}

TEST_CASE("a pass of experts padded to their capacity reads nothing on the host",
          "[moe][capacity][padding][C24]") {
  const DispatchConfig dispatch = GENERATE(DispatchConfig{}, DispatchConfig{.chunks = 2},
                                           DispatchConfig{.dispatcher = "all_gather"});
  const bool padded = GENERATE(false, true);
  CAPTURE(padded, dispatch.chunks);
  const std::vector<RunResult> ranks =
      train_all({.parallel = {.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .dispatch = dispatch},
                 .num_ranks = 4,
                 .num_steps = 1,
                 .change_config = with_capacity(CapacityScope::kMicrobatch, padded),
                 .inspect = forward_reads});
  for (const RunResult& rank : ranks) {
    CHECK(rank.inspected[0] == (padded ? 0.0 : 2.0));  // else one for each of 2 layers
  }
}

TEST_CASE("an expert's room follows from the shapes of what its group shares",
          "[moe][capacity][padding]") {
  // 4 sequences of 6 tokens, dp 2 x tp 2 with 2 x 3 tokens on each rank, 3 of 8 experts a token:
  // room for 9 in the micro-batch, or 3 in each sequence.
  struct Case {
    std::int64_t ep;
    CapacityScope scope;
    double factor;
    std::int64_t of_sender, of_group;
  };
  const Case each = GENERATE(
      Case{4, CapacityScope::kMicrobatch, 1.0, 6, 9},
      Case{2, CapacityScope::kMicrobatch, 1.0, 6, 9}, Case{4, CapacityScope::kSequence, 1.0, 6, 12},
      Case{2, CapacityScope::kSequence, 1.0, 6, 6}, Case{2, CapacityScope::kSequence, 0.3, 2, 2},
      Case{2, CapacityScope::kMicrobatch, 8.0, 6, 12});
  const auto rooms =
      results_of(4, {}, [&](World& world) {
        Runtime runtime(world);
        const MeshViews views =
            value_or_throw(MeshViews::make({.dp_shard = 2, .tp = 2, .ep = each.ep}, 4));
        ModelConfig config;
        config.num_experts = 8;
        config.router_top_k = 3;
        config.routing.capacity_factor = each.factor;
        config.routing.capacity_scope = each.scope;
        const DTensor x = distribute(runtime, Array::zeros({4, 6, 2}, DType::kF32), views.dense(),
                                     Placements{Shard{0}, Shard{1}});
        const ExpertRoom room = expert_room(config, x, {views.sparse(), views.sparse_axes({"ep"})});
        return std::pair{room.of_sender, room.of_group};
      }).value();
  for (const auto& room : rooms) CHECK(room == std::pair{each.of_sender, each.of_group});
}

TEST_CASE("padding to capacity names the key that it does not go with", "[moe][capacity][config]") {
  const auto error_of = [](const ParallelConfig& parallel) -> std::string {
    RunOptions options = {.parallel = parallel,
                          .num_ranks = 2,
                          .num_steps = 1,
                          .change_config = with_capacity(CapacityScope::kMicrobatch, true)};
    try {
      train(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  if (!runs_here(2)) return;
  CHECK_THAT(error_of({.dp_shard = 2, .ep = 2, .dispatch = {.rows_bound = 64}}),
             Catch::Contains("pad_to_capacity fixes") && Catch::Contains("rows_bound 64"));
}

}  // namespace tessera::testing
