// Calls of the built-in ops, mutated as the bytes say: each ends in values, on one rank and on
// several alike, or in one clear error before anything runs.
#include "tests/fuzz/call_judge.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

void try_call(std::span<const std::uint8_t> input) {
  static const OpTable table = [] {
    OpTable all;
    add_builtin_ops(all);
    return all;
  }();
  static const std::vector<const Op*> ops = table.ops();
  testing::Choices choices(input);
  const testing::MutatedCall call = testing::mutated_call(ops, choices);
  const testing::Judgement judgement = testing::judge_call(table, call, choices);
  TSR_CHECK(judgement.flaw.empty(), testing::describe(call) + ": " + judgement.flaw);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_call({data, size});
  return 0;
}
