// The bias that evens out the load: its sum, its replicas, and what its update exchanges.
#include "moe/layer/balance.h"

#include <cmath>
#include <numeric>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

RunOptions options_of(const std::function<void(ModelConfig&)>& change) {
  return {.parallel = {.dp_shard = 2, .tp = 2, .ep = 2},
          .num_ranks = 4,
          .dtype = DType::kF32,
          .num_steps = 3,
          .change_config = [change](ModelConfig& config) {
            config.seq = 16;
            config.batch = 4;
            change(config);
          }};
}

std::vector<double> first_bias(Model& model, Trainer&) {
  return model.moe_layers()[0]->balancer().expert_bias_E().local().to_vector();
}

}  // namespace

TEST_CASE("a centred bias sums to zero, one that is not moves by its coefficient",
          "[moe][balance][C41]") {
  const bool centred = GENERATE(true, false);
  RunOptions options = options_of([centred](ModelConfig& config) {
    config.routing.bias_centred = centred;
    config.bias_coeff = 0.25;
  });
  options.inspect = first_bias;
  const std::vector<RunResult> ranks = train_all(options);
  const std::vector<double>& bias = ranks[0].inspected;
  for (const RunResult& rank : ranks) CHECK(rank.inspected == bias);
  if (centred) {
    CHECK(std::abs(std::accumulate(bias.begin(), bias.end(), 0.0)) < 1e-6);
    return;
  }
  // By the recorded counts, in plain loops.
  std::vector<double> wanted(bias.size(), 0.0);
  for (const StepReport& step : ranks[0].steps) {
    const std::vector<std::int64_t>& counts = step.tokens_per_expert[0];
    const double mean =
        std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
    for (std::size_t e = 0; e < counts.size(); ++e) {
      const auto count = static_cast<double>(counts[e]);
      wanted[e] += count < mean ? 0.25 : count > mean ? -0.25 : 0.0;
    }
  }
  CHECK(bias == wanted);
}

TEST_CASE("one all-reduce updates the bias of all layers", "[moe][balance][C42]") {
  const RunResult run = train(options_of([](ModelConfig&) {}));
  REQUIRE(run.steps[0].tokens_per_expert.size() == 2);
  std::int64_t count = 0;
  for (const EventLog::Total& total : run.steps[0].moved) {
    if (total.kind == Event::Kind::kCollective && total.module == "load_balance") {
      count += total.count;
    }
  }
  CHECK(count == 1);
}

TEST_CASE("evaluation is not counted", "[moe][balance][C43]") {
  RunOptions options = options_of([](ModelConfig&) {});
  options.inspect = [](Model& model, Trainer& trainer) {
    const StepReport before = trainer.step(2);
    const NoGrad no_grad(model.context().runtime);
    const Array ids = Array::empty({4, 16}, DType::kI32);
    std::fill_n(ids.data<std::int32_t>(), 64, 7);
    model.logits(model.context().place_tokens(ids));
    return std::vector<double>{model.moe_layers()[0]->balancer().counts_E().defined() ? 1.0 : 0.0,
                               static_cast<double>(before.tokens_per_expert[0].size())};
  };
  const RunResult run = train(options);
  CHECK(run.inspected == std::vector<double>{0.0, 8.0});
}

}  // namespace tessera::testing
