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
  check_same(run, one);
}

}  // namespace tessera::testing
