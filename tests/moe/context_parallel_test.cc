// Queries cut over cp: keys gathered or rotated, positions in plain or balanced order, against one
// rank in F64.
#include <algorithm>
#include <cmath>
#include <map>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// Gradients of one step, every element, by parameter.
std::vector<double> all_gradients(Model& model, Trainer&) {
  std::vector<double> values;
  for (Parameter& parameter : model.parameters().all()) {
    const std::vector<double> each = full_tensor(parameter.stored().grad()).to_vector();
    values.insert(values.end(), each.begin(), each.end());
  }
  return values;
}

struct ContextCase {
  std::int64_t seq;
  ParallelConfig parallel;
  int num_ranks() const {
    const ParallelConfig& p = parallel;
    return static_cast<int>(p.dp_replicate * p.dp_shard * p.cp * p.tp);
  }
  RunOptions options(std::int64_t num_steps) const {
    const std::int64_t length = seq;
    return {.parallel = parallel,
            .num_ranks = num_ranks(),
            .num_steps = num_steps,
            .change_config = [length](ModelConfig& config) { config.seq = length; },
            .inspect = all_gradients};
  }
};

const RunResult& one_rank(std::int64_t seq, std::int64_t num_steps) {
  static std::map<std::pair<std::int64_t, std::int64_t>, RunResult> runs;
  const auto key = std::pair(seq, num_steps);
  auto at = runs.find(key);
  if (at == runs.end()) {
    at = runs.emplace(key, train(ContextCase{seq, {}}.options(num_steps))).first;
  }
  return at->second;
}

}  // namespace

TEST_CASE("cp trains like one rank by either method and in either order",
          "[moe][cp][C18][C51][C60]") {
  const ContextMethod method = GENERATE(ContextMethod::kAllGather, ContextMethod::kRing);
  const bool balanced = GENERATE(false, true);
  ContextCase each = GENERATE(ContextCase{64, {.cp = 2}}, ContextCase{61, {.cp = 4}},
                              ContextCase{61, {.cp = 2, .tp = 2, .sequence_parallel = false}},
                              ContextCase{61, {.cp = 2, .tp = 2, .ep = 4}},
                              ContextCase{64, {.dp_replicate = 2, .cp = 2, .tp = 2, .ep = 2}},
                              ContextCase{64, {.dp_shard = 2, .cp = 2, .ep = 4}});
  each.parallel.cp_method = method;
  each.parallel.cp_load_balance = balanced;
  CAPTURE(each.seq, each.parallel.cp, each.parallel.tp, each.parallel.ep, balanced,
          method == ContextMethod::kRing);
  constexpr std::int64_t kSteps = 2;
  const RunResult run = train(each.options(kSteps));
  const RunResult& one = one_rank(each.seq, kSteps);
  check_same(run, one);
  REQUIRE(run.inspected.size() == one.inspected.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < one.inspected.size(); ++i) {
    largest = std::max(largest, std::abs(run.inspected[i] - one.inspected[i]));
  }
  CHECK(largest < 1e-9);
}

TEST_CASE("a sequence shorter than 2 cp leaves ranks without tokens and still trains",
          "[moe][cp]") {
  const ContextMethod method = GENERATE(ContextMethod::kAllGather, ContextMethod::kRing);
  const bool balanced = GENERATE(false, true);
  ContextCase each{5, {.cp = 4}};  // 2, 2, 1 and 0 tokens
  each.parallel.cp_method = method;
  each.parallel.cp_load_balance = balanced;
  check_same(train(each.options(2)), one_rank(5, 2));
}

}  // namespace tessera::testing
