// The parity models on 4 ranks against one rank, and against ranks as threads: reductions go in
// order of group rank on every backend, so a run's bits do not depend on the backend.
#include <cmath>

#include "tests/moe/training_run.h"

namespace tessera::testing {

TEST_CASE("4 ranks in F64 train like one rank, and with the bits of ranks as threads",
          "[moe][backends]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const RunOptions options = {.model = model,
                              .parallel = {.dp_shard = 2, .tp = 2, .ep = 2},
                              .num_ranks = 4,
                              .dtype = DType::kF64};
  const RunResult run = train(options);
  const RunResult one = train({.model = model, .dtype = DType::kF64});
  const RunResult threads = train_on_threads(options);
  REQUIRE(run.steps.size() == 10);
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - one.steps[step].loss) < 1e-9);
    CHECK(std::abs(run.steps[step].grad_norm - one.steps[step].grad_norm) < 1e-9);
    CHECK(run.steps[step].tokens_per_expert == one.steps[step].tokens_per_expert);
    CHECK(run.steps[step].loss == threads.steps[step].loss);
    CHECK(run.steps[step].grad_norm == threads.steps[step].grad_norm);
  }
  for (const auto& [name, norm] : one.final_l2) {
    CAPTURE(name);
    CHECK(run.final_l2.at(name) == Approx(norm).epsilon(1e-9));
  }
  CHECK(run.final_l2 == threads.final_l2);
  CHECK(run.logits0 == threads.logits0);
}

}  // namespace tessera::testing
