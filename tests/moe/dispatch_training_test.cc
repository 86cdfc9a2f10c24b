// The same training under every dispatcher, with padding, chunks and fixed buffers; overflow; what
// lies between the sending of rows and their arrival.
#include <algorithm>
#include <cmath>

#include "kernels/memory_use.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

int ranks_of(const ParallelConfig& parallel) {
  return static_cast<int>(parallel.dp_replicate * parallel.dp_shard * parallel.cp * parallel.tp);
}

}  // namespace

TEST_CASE("losses under every dispatcher are those of one rank",
          "[moe][long][dispatch][C30][C31][C17][C18]") {
  static const RunResult one = train({.model = "grouped", .num_steps = 2});
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{.dispatch = {.expert_alignment = 16, .chunks = 2}},
      ParallelConfig{.tp = 2, .dispatch = {.expert_alignment = 16}},
      ParallelConfig{.tp = 2, .ep = 2, .dispatch = {.expert_alignment = 16, .chunks = 3}},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .dispatch = {.chunks = 2}},
      ParallelConfig{.dp_shard = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 2,
                     .etp = 2,
                     .dispatch = {.rows_bound = 4096, .expert_alignment = 16, .chunks = 2}},
      ParallelConfig{
          .tp = 2, .ep = 2, .sequence_parallel = false, .dispatch = {.dispatcher = "all_gather"}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 2,
                     .etp = 2,
                     .dispatch = {.dispatcher = "all_gather", .expert_alignment = 16, .chunks = 2}},
      ParallelConfig{
          .dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2}},
      ParallelConfig{.dp_shard = 4,
                     .tp = 2,
                     .ep = 4,
                     .etp = 2,
                     .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 4, .chunks = 2}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .recompute = Recompute::kSelective,
                     .dispatch = {.dispatcher = "hierarchical",
                                  .ranks_per_node = 2,
                                  .rows_bound = 4096,
                                  .expert_alignment = 16}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 2,
                     .etp = 2,
                     .dispatch = {.dispatcher = "peer", .chunks = 2}},
      ParallelConfig{
          .dp_shard = 2,
          .tp = 2,
          .ep = 4,
          .recompute = Recompute::kSelective,
          .dispatch = {.dispatcher = "peer", .rows_bound = 4096, .expert_alignment = 16}},
      ParallelConfig{.dp_shard = 4,
                     .tp = 2,
                     .ep = 4,
                     .etp = 2,
                     .dispatch = {.dispatcher = "peer", .ranks_per_node = 4, .rows_bound = 4096}});
  CAPTURE(parallel.dp_shard, parallel.tp, parallel.ep, parallel.etp, parallel.dispatch.dispatcher,
          parallel.dispatch.rows_bound, parallel.dispatch.expert_alignment,
          parallel.dispatch.chunks);
  check_same(train({.model = "grouped",
                    .parallel = parallel,
                    .num_ranks = ranks_of(parallel),
                    .num_steps = 2}),
             one);
}

TEST_CASE("batches that leave ranks without tokens, or with uneven ones, train like on one rank",
          "[moe][dispatch][C13][C14]") {
  const std::int64_t seq = GENERATE(3, 13);
  const auto tiny = [seq](ModelConfig& config) { config.seq = seq; };
  const RunOptions one = {.num_steps = 1, .change_config = tiny};
  RunOptions many = one;
  many.parallel = {.tp = 4, .ep = 4};
  many.parallel.dispatch = {
      .dispatcher = GENERATE(as<std::string>{}, "all_gather", "hierarchical", "peer"),
      .ranks_per_node = 2};
  many.num_ranks = 4;
  check_same(train(many), train(one));
}

TEST_CASE("padded BF16 runs equal unpadded ones", "[moe][dispatch][C31]") {
  const auto losses = [](std::int64_t alignment) {
    const RunResult run =
        train({.parallel = {.dp_shard = 2, .ep = 2, .dispatch = {.expert_alignment = alignment}},
               .num_ranks = 2,
               .dtype = DType::kBF16,
               .num_steps = 1});
    return run.steps[0].loss;
  };
  const double padded = losses(16);
  const double unpadded = losses(1);
  CHECK(padded == unpadded);
}

TEST_CASE("an overflow stops the step on every rank, naming layer, bound and need",
          "[moe][long][dispatch][C36][R20]") {
  const std::string dispatcher =
      GENERATE(as<std::string>{}, "all_to_all", "all_gather", "hierarchical", "peer");
  RunOptions options = {.parallel = {.dp_shard = 2, .ep = 2},
                        .num_ranks = 2,
                        .num_steps = 1,
                        .inspect = [](Model&, Trainer&) { return std::vector<double>{}; }};
  options.parallel.dispatch = {.dispatcher = dispatcher, .ranks_per_node = 1, .rows_bound = 4096};
  const RunResult fits = train(options);
  CHECK(fits.steps.size() == 1);
  options.parallel.dispatch.rows_bound = 64;
  CHECK_THROWS_WITH(train(options), Catch::Contains("layers.1.moe.routed_experts: rows_bound 64, "
                                                    "but ") &&
                                        Catch::Contains("are needed"));
}

TEST_CASE("shared experts run while rows are on their way", "[moe][dispatch]") {
  // Starts of one pass of a layer: rows sent, shared experts' first and last exchange, rows back.
  const auto starts_of = [](Model& model, Trainer&) {
    const ModelContext& context = model.context();
    const std::vector<Event>& events = context.runtime.events().events();
    const std::size_t before = events.size();
    model.logits(distribute(context.runtime, Array::zeros({8, context.config.seq}, DType::kI64),
                            context.views.dense(), context.whole_tokens()));
    std::vector<double> routed, shared;
    for (std::size_t i = before; i < events.size(); ++i) {
      if (events[i].kind != Event::Kind::kCollective) continue;
      if (events[i].module == "layers.1.moe.routed_experts") routed.push_back(events[i].start_us);
      if (events[i].module == "layers.1.moe.shared_experts") shared.push_back(events[i].start_us);
    }
    std::sort(routed.begin(), routed.end());  // counts, rows there, rows back
    std::sort(shared.begin(), shared.end());
    return std::vector<double>{routed.at(1), shared.at(0), shared.back(), routed.at(2)};
  };
  const std::vector<RunResult> ranks = train_all(
      {.parallel = {.tp = 2, .ep = 2}, .num_ranks = 2, .num_steps = 1, .inspect = starts_of});
  for (const RunResult& rank : ranks) {
    REQUIRE(rank.inspected.size() == 4);
    CHECK(std::is_sorted(rank.inspected.begin(), rank.inspected.end()));
  }
}

TEST_CASE("passes without a backward one leave nothing behind", "[moe][long][dispatch][C35]") {
  const auto growth = [](Model& model, Trainer&) {
    const ModelContext& context = model.context();
    const Allocator& allocator = *context.runtime.kernels().allocator;
    const DTensor ids =
        distribute(context.runtime, Array::zeros({8, context.config.seq}, DType::kI64),
                   context.views.dense(), context.whole_tokens());
    const auto used = [&] {
      for (MoeLayer* layer : model.moe_layers()) {
        layer->balancer().forget_counts();
        layer->experts().take_rows_needed();
      }
      return static_cast<double>(memory_use_of(allocator).used_bytes);
    };
    const auto pass = [&] { model.logits(ids); };
    pass();
    const double before = used();
    for (int i = 0; i < 3; ++i) pass();  // a history is made and dropped
    const double recorded = used();
    const NoGrad no_grad(context.runtime);
    pass();
    const double evaluated = used();
    for (int i = 0; i < 3; ++i) pass();
    return std::vector<double>{before, recorded, evaluated, used()};
  };
  const DispatchConfig config =
      GENERATE(DispatchConfig{.chunks = 2}, DispatchConfig{.dispatcher = "all_gather"},
               DispatchConfig{.rows_bound = 4096});
  for (const RunResult& rank : train_all({.parallel = {.dp_shard = 2, .ep = 2, .dispatch = config},
                               .num_ranks = 2,
                               .num_steps = 1,
                               .inspect = growth})) {
    CHECK(rank.inspected[1] == rank.inspected[0]);
    CHECK(rank.inspected[2] <= rank.inspected[0]);
    CHECK(rank.inspected[3] == rank.inspected[2]);
  }
}

}  // namespace tessera::testing
