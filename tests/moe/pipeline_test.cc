// Pipeline stages train like one rank: losses, norms, counts and parameters, with both schedules,
// stages without MoE layers, and expert parallelism inside a stage.
#include <cmath>
#include <limits>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// Short sequences: what is claimed here does not depend on their length.
void shorten(ModelConfig& config) {
  config.seq = 12;
  config.batch = 4;
}

auto shorten_to(std::int64_t num_layers) {
  return [num_layers](ModelConfig& config) {
    shorten(config);
    config.n_layers = num_layers;
  };
}

/// The run on `num_ranks` ranks against the same on one.
void check_like_one_rank(const RunOptions& options, const ParallelConfig& parallel, int num_ranks) {
  RunOptions many = options;
  many.parallel = parallel;
  many.num_ranks = num_ranks;
  const RunResult run = train(many);  // first: a launch that leaves it to another needs no one rank
  check_same(run, train(options));
}

constexpr PipelineOrder kInterleaved = PipelineOrder::kInterleaved1F1B;

std::string error_of(const RunOptions& options) {
  try {
    train(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("recorded models on two and three stages train like one rank", "[moe][pipeline][C59]") {
  // Three layers, the first without MoE: on three stages the first one has none.
  const std::string model = GENERATE("softmax", "grouped");
  const std::int64_t pp = GENERATE(2, 3);
  CAPTURE(model, pp);
  check_like_one_rank({.model = model, .num_steps = 2}, {.pp = pp}, static_cast<int>(pp));
}

TEST_CASE("stages with FSDP, tensor and expert parallelism inside train like one rank",
          "[moe][pipeline][C42][C52][C59]") {
  struct Case {
    ParallelConfig parallel;
    int num_ranks;
  };
  const Case each = GENERATE(
      Case{{.dp_shard = 2, .pp = 2}, 4}, Case{{.tp = 2, .ep = 2, .pp = 2}, 4},
      Case{{.cp = 2, .etp = 2, .pp = 2}, 4}, Case{{.dp_shard = 2, .tp = 2, .ep = 2, .pp = 2}, 8},
      Case{{.dp_replicate = 2, .tp = 2, .ep = 2, .pp = 2}, 8});
  CAPTURE(each.parallel.dp_shard, each.parallel.dp_replicate, each.parallel.tp);
  check_like_one_rank({.model = "grouped", .num_steps = 2, .change_config = shorten}, each.parallel,
                      each.num_ranks);
}

TEST_CASE("interleaved stages train like one rank", "[moe][pipeline][C59]") {
  struct Case {
    ParallelConfig parallel;
    int num_ranks;
    std::int64_t num_layers;
  };
  // Five layers on four stages are 2, 1, 1, 1; the last case has three stages a rank.
  const Case each = GENERATE(
      Case{{.pp = 2, .pp_schedule = kInterleaved}, 2, 4},
      Case{{.dp_shard = 2, .pp = 2, .pp_schedule = kInterleaved}, 4, 5},
      Case{{.dp_shard = 2, .tp = 2, .ep = 2, .pp = 2, .pp_schedule = kInterleaved}, 8, 4},
      Case{{.pp = 2, .pp_schedule = kInterleaved, .pp_microbatches = 4, .pp_stages_per_rank = 3},
           2,
           6});
  CAPTURE(each.num_ranks, each.num_layers);
  check_like_one_rank({.num_steps = 2, .change_config = shorten_to(each.num_layers)}, each.parallel,
                      each.num_ranks);
}

TEST_CASE("stages of the numbers of layers that a user says train like one rank",
          "[moe][pipeline][C59]") {
  struct Case {
    ParallelConfig parallel;
    int num_ranks;
    std::int64_t num_layers;
  };
  // The first layer has no MoE: alone on its stage, or with another.
  const Case each = GENERATE(Case{{.pp = 2, .pp_layers = {1, 2}}, 2, 3},
                             Case{{.pp = 2, .pp_layers = {2, 1}}, 2, 3},
                             Case{{.dp_shard = 2, .pp = 2, .pp_layers = {1, 3}}, 4, 4},
                             Case{{.tp = 2,
                                   .ep = 2,
                                   .pp = 2,
                                   .pp_schedule = kInterleaved,
                                   .pp_microbatches = 3,
                                   .pp_layers = {1, 2, 1, 1}},
                                  4,
                                  5});
  CAPTURE(each.parallel.pp_layers);
  check_like_one_rank({.num_steps = 2, .change_config = shorten_to(each.num_layers)}, each.parallel,
                      each.num_ranks);
}

TEST_CASE("interleaved stages train like one rank with any number of micro-batches",
          "[moe][pipeline][C51][C59]") {
  struct Case {
    std::int64_t batch, accum, pieces;
  };
  // Fewer than pp, a longer round, rounds of 3 and 2 micro-batches; the last as many as fit.
  const Case each = GENERATE(Case{4, 1, 1}, Case{4, 1, 3}, Case{5, 1, 5}, Case{1, 3, 0});
  CAPTURE(each.batch, each.accum, each.pieces);
  const auto change = [&](ModelConfig& config) {
    shorten(config);
    config.n_layers = 4;
    config.batch = each.batch;
    config.accum = each.accum;
  };
  check_like_one_rank({.num_steps = 2, .change_config = change},
                      {.pp = 2, .pp_schedule = kInterleaved, .pp_microbatches = each.pieces}, 2);
}

TEST_CASE("a rank without MoE layers joins what all stages count", "[moe][pipeline][C42][C59]") {
  const auto mostly_dense = [](ModelConfig& config) {
    shorten(config);
    config.n_layers = 4;
    config.n_dense_layers = 3;
  };
  const PipelineOrder order = GENERATE(PipelineOrder::k1F1B, kInterleaved);
  check_like_one_rank({.num_steps = 2, .change_config = mostly_dense},
                      {.dp_shard = 2, .pp = 2, .pp_schedule = order}, 4);
  const auto all_dense = [](ModelConfig& config) {
    shorten(config);
    config.n_dense_layers = config.n_layers;
  };
  check_like_one_rank({.num_steps = 2, .change_config = all_dense}, {.pp = 2}, 2);
}

TEST_CASE("pieces and accumulated micro-batches of any sizes train like one rank",
          "[moe][pipeline][C51]") {
  struct Case {
    std::int64_t batch, accum, pieces;
  };
  // Uneven pieces, fewer rows than data ranks, fewer micro-batches than stages, one row each.
  const Case each = GENERATE(Case{5, 2, 2}, Case{4, 1, 4}, Case{3, 1, 1}, Case{3, 3, 0});
  CAPTURE(each.batch, each.accum, each.pieces);
  const auto change = [&](ModelConfig& config) {
    shorten(config);
    config.batch = each.batch;
    config.accum = each.accum;
  };
  check_like_one_rank({.num_steps = 2, .change_config = change},
                      {.dp_shard = 2, .pp = 2, .pp_microbatches = each.pieces}, 4);
}

TEST_CASE("recomputed blocks of a stage train like one rank", "[moe][pipeline][C59]") {
  const Recompute recompute = GENERATE(Recompute::kFull, Recompute::kSelective);
  check_like_one_rank({.model = "grouped", .num_steps = 2, .change_config = shorten},
                      {.tp = 2, .ep = 2, .pp = 2, .recompute = recompute}, 4);
}

TEST_CASE("every rank of every stage reports the same step", "[moe][pipeline][C52]") {
  const std::vector<RunResult> ranks = train_all({.model = "grouped",
                                                  .parallel = {.dp_shard = 2, .pp = 2},
                                                  .num_ranks = 4,
                                                  .num_steps = 2,
                                                  .change_config = shorten});
  for (const RunResult& rank : ranks) {
    for (std::size_t step = 0; step < 2; ++step) {
      CHECK(rank.steps[step].loss == ranks[0].steps[step].loss);
      CHECK(rank.steps[step].grad_norm == ranks[0].steps[step].grad_norm);
      CHECK(rank.steps[step].tokens_per_expert == ranks[0].steps[step].tokens_per_expert);
    }
  }
}

TEST_CASE("pipelined ranks have the bits of ranks as threads", "[moe][pipeline]") {
  const RunOptions options = {.parallel = {.tp = 2, .ep = 2, .pp = 2},
                              .num_ranks = 4,
                              .dtype = DType::kF32,
                              .num_steps = 2,
                              .change_config = shorten};
  const RunResult run = train(options);
  const RunResult threads = train_on_threads(options);
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CHECK(run.steps[step].loss == threads.steps[step].loss);
    CHECK(run.steps[step].grad_norm == threads.steps[step].grad_norm);
  }
  CHECK(run.elements == threads.elements);
}

TEST_CASE("a loss that is not finite stops every stage before the update", "[moe][pipeline][C73]") {
  // Only the last stage holds the head; one weight of it makes the loss infinite or NaN.
  const auto break_head = [](Model& model, Trainer& trainer) {
    const auto checksum = [&] {
      double sum = 0.0;
      for (Parameter& parameter : model.parameters().all()) {
        for (const double value : parameter.stored().local().to_vector()) {
          sum += std::isfinite(value) ? value : 0.0;
        }
      }
      return sum;
    };
    if (Parameter* head = model.parameters().find("lm_head.weight")) {
      const NoGrad no_grad(model.context().runtime);
      DTensor weight = head->stored().detach();
      fill_(weight, std::numeric_limits<double>::quiet_NaN());
    }
    const double before = checksum();
    double refused = 0.0;
    try {
      trainer.step(1);
    } catch (const Error& error) {
      refused = absl::IsFailedPrecondition(error.status()) ? 1.0 : -1.0;
    }
    return std::vector<double>{refused, checksum() - before};
  };
  const std::vector<RunResult> ranks = train_all({.parallel = {.tp = 2, .pp = 2},
                                                  .num_ranks = 4,
                                                  .num_steps = 1,
                                                  .change_config = shorten,
                                                  .inspect = break_head});
  for (const RunResult& rank : ranks) CHECK(rank.inspected == std::vector<double>{1.0, 0.0});
}

TEST_CASE("a pipeline that does not fit the model is refused by every rank", "[moe][pipeline]") {
  struct Case {
    ParallelConfig parallel;
    std::string error;
  };
  const Case each = GENERATE(
      Case{{.pp = 4}, "pp 4 x 1 stages a rank are 4 stages, but the model has 3 layers"},
      Case{{.pp = 2, .pp_schedule = kInterleaved},
           "pp 2 x 2 stages a rank are 4 stages, but the model has 3 layers"},
      Case{{.pp = 2, .pp_stages_per_rank = 2},
           "pp_stages_per_rank is 2; pp_schedule 1f1b has one stage a rank"},
      Case{{.pp = 2, .pp_microbatches = 1000},
           "pp_microbatches is 1000; a micro-batch has 8 sequences"},
      Case{{.pp = 2, .pp_layers = {1, 1, 1}},
           "pp_layers is [1, 1, 1], 3 numbers; pp 2 x 1 stages a rank are 2 stages"},
      Case{{.pp = 2, .pp_layers = {3, 0}}, "pp_layers is [3, 0]; a stage has at least one layer"},
      Case{{.pp = 2, .pp_layers = {1, 1}},
           "pp_layers is [1, 1], which adds up to less than the model's 3 layers"},
      Case{{.pp = 2, .pp_layers = {INT64_MAX, INT64_MAX}},
           "which adds up to more than the model's 3 layers"});
  CAPTURE(each.error);
  const std::string error = error_of(
      {.parallel = each.parallel, .num_ranks = static_cast<int>(each.parallel.pp), .num_steps = 1});
  CHECK_THAT(error, Catch::Contains(each.error));
}

TEST_CASE("a plan of stages names what does not fit", "[moe][pipeline]") {
  ModelConfig config;
  config.n_layers = 7;
  config.batch = 8;
  config.accum = 1;
  const PipelinePlan plan = value_or_throw(plan_pipeline(config, {.dp_shard = 2, .pp = 3}));
  CHECK(plan.shape == PipelineShape{3, 1, 4});  // 4 pieces: each data rank has a row in all
  const std::vector<ModelPart> parts = {
      {0, 0, 3, true, false}, {1, 3, 5, false, false}, {2, 5, 7, false, true}};
  CHECK(plan.parts == parts);
  const std::vector<MicroBatch> rows = {{0, 0, 2}, {0, 2, 2}, {0, 4, 2}, {0, 6, 2}};
  CHECK(plan.micro_batches == rows);

  const auto error = [&](const ParallelConfig& parallel) {
    const auto refused = plan_pipeline(config, parallel);
    return refused.ok() ? "accepted" : std::string(message_of(refused.status()));
  };
  CHECK(error({.pp_schedule = kInterleaved}) ==
        "parallel: pp_schedule interleaved_1f1b needs pp of at least 2, not 1");
  // Micro-batches: a multiple of pp where one is to be had, else as many as there can be.
  const auto micro_batches = [&](const ParallelConfig& parallel) {
    return value_or_throw(plan_pipeline(config, parallel)).shape.micro_batches;
  };
  CHECK(micro_batches({.pp = 3, .pp_schedule = kInterleaved}) == 6);
  CHECK(micro_batches({.pp = 3, .pp_schedule = kInterleaved, .pp_microbatches = 4}) == 4);
  config.batch = 2;
  CHECK(micro_batches({.pp = 3, .pp_schedule = kInterleaved}) == 2);

  const PipelinePlan uneven = value_or_throw(plan_pipeline(
      config,
      {.pp = 2, .pp_schedule = kInterleaved, .pp_stages_per_rank = 2, .pp_layers = {1, 3, 1, 2}}));
  const std::vector<ModelPart> told = {{0, 0, 1, true, false},
                                       {1, 1, 4, false, false},
                                       {2, 4, 5, false, false},
                                       {3, 5, 7, false, true}};
  CHECK(uneven.parts == told);
}

}  // namespace tessera::testing
