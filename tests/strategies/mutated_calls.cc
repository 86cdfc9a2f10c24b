// Calls with mutated attributes, shapes, dtypes and operands: each ends in values, on one rank and
// on several alike, or in one clear error before anything runs.
#include "tests/fuzz/call_judge.h"
#include "tests/strategies/ops_call.h"

namespace tessera {
namespace {

using testing::Choices;
using testing::Ending;
using testing::Judgement;
using testing::MutatedCall;

constexpr std::uint64_t kMostFlaws = 20;  // told of; the others are likely of the same causes

/// How many of the calls made from these seeds ended in values. A failure names the call and its
/// seed; so does a crash, which Catch2 tells of by the INFO at hand.
std::uint64_t count_values(std::uint64_t first_seed, std::uint64_t count) {
  const std::vector<const Op*> ops = testing::builtin_table().ops();
  std::uint64_t with_values = 0, flaws = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    Choices choices(seed);
    const MutatedCall call = mutated_call(ops, choices);
    INFO("seed " << seed << ": " << describe(call));
    const Judgement judgement = judge_call(testing::builtin_table(), call, choices);
    if (judgement.ending == Ending::kValues) ++with_values;
    if (judgement.flaw.empty()) continue;
    FAIL_CHECK(judgement.flaw);
    if (++flaws == kMostFlaws) break;
  }
  return with_values;
}

}  // namespace

TEST_CASE("a mutated call ends in values that all ranks agree on, or in one clear error",
          "[strategies][mutation]") {
  // A third and more of the calls are accepted: mutations are not so wild that nothing runs.
  CHECK(count_values(1, 5000) > 1500);
}

TEST_CASE("ever so many mutated calls end in values or in one clear error",
          "[strategies][mutation][.deep]") {
  CHECK(count_values(1000000, 200000) > 60000);
}

}  // namespace tessera
