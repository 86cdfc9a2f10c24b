// The parity models on several ranks against one rank, and against ranks as threads: reductions go
// in order of group rank on every backend, so a run's bits do not depend on the backend.
#include <cmath>

#include "tests/moe/training_run.h"

namespace tessera::testing {

namespace {

void check_against(const RunResult& run, const RunResult& one, const RunResult& threads) {
  REQUIRE(run.steps.size() == one.steps.size());
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - one.steps[step].loss) < 1e-9);
    CHECK(std::abs(run.steps[step].grad_norm - one.steps[step].grad_norm) < 1e-9);
    CHECK(run.steps[step].tokens_per_expert == one.steps[step].tokens_per_expert);
    CHECK(run.steps[step].loss == threads.steps[step].loss);
    CHECK(run.steps[step].grad_norm == threads.steps[step].grad_norm);
  }
  CHECK(element_difference(run, one) == "");
  CHECK(run.elements == threads.elements);
  CHECK(run.logits0 == threads.logits0);
}

}  // namespace

TEST_CASE("ranks in F64 train like one rank, and with the bits of ranks as threads",
          "[moe][backends]") {
  struct Case {
    std::string model;
    int num_ranks;
    std::int64_t dp_shard, num_steps;
  };
  const Case each =
      GENERATE(Case{"softmax", 4, 2, 3}, Case{"grouped", 4, 2, 3}, Case{"grouped", 8, 4, 2});
  CAPTURE(each.model, each.num_ranks);
  const RunOptions options = {.model = each.model,
                              .parallel = {.dp_shard = each.dp_shard, .tp = 2, .ep = 2},
                              .num_ranks = each.num_ranks,
                              .dtype = DType::kF64,
                              .num_steps = each.num_steps};
  const RunResult run = train(options);
  const RunResult one =
      train({.model = each.model, .dtype = DType::kF64, .num_steps = each.num_steps});
  check_against(run, one, train_on_threads(options));
}

}  // namespace tessera::testing
