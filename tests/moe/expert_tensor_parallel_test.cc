// Experts whose hidden dim is cut over etp: any divisor, with ep and without, against one rank.
#include <cmath>

#include "tests/moe/training_run.h"

namespace tessera::testing {

TEST_CASE("losses under any etp are those of one rank", "[moe][etp][C61][C21]") {
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{.dp_shard = 2, .etp = 2}, ParallelConfig{.dp_shard = 3, .etp = 3},
      ParallelConfig{.tp = 2, .etp = 2}, ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 1, .etp = 4},
      ParallelConfig{.dp_shard = 6, .ep = 2, .etp = 3},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 1, .etp = 2, .sequence_parallel = false},
      ParallelConfig{.dp_replicate = 2, .cp = 2, .tp = 2, .ep = 2, .etp = 2});
  CAPTURE(parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp, parallel.ep,
          parallel.etp);
  const auto num_ranks =
      static_cast<int>(parallel.dp_replicate * parallel.dp_shard * parallel.cp * parallel.tp);
  static const RunResult one = train({.model = "grouped", .num_steps = 2});
  const RunResult run =
      train({.model = "grouped", .parallel = parallel, .num_ranks = num_ranks, .num_steps = 2});
  REQUIRE(run.steps.size() == one.steps.size());
  for (std::size_t step = 0; step < one.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - one.steps[step].loss) < 1e-9);
    CHECK(std::abs(run.steps[step].grad_norm - one.steps[step].grad_norm) < 1e-9);
    CHECK(run.steps[step].tokens_per_expert == one.steps[step].tokens_per_expert);
  }
  for (const auto& [name, norm] : one.final_l2) {
    CAPTURE(name);
    CHECK(run.final_l2.at(name) == Approx(norm).epsilon(1e-8));
  }
}

}  // namespace tessera::testing
