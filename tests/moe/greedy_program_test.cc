// A step's program, taken apart and propagated op by op: what dispatch decided comes out again.
#include "program/solver/propagate_program.h"
#include "program/unfold.h"
#include "tests/moe/compositions.h"

namespace tessera::testing {
namespace {

/// What a flat program's calls and moves are, but for names of values.
std::vector<std::string> decisions_of(const Program& program) {
  std::map<std::string, std::string> lies;
  const auto know = [&](const ProgramValue& value) {
    return lies[value.name] = value.layout && value.mesh
                                  ? value_or_throw(spec_of(program, value)).to_string()
                                  : "plain";
  };
  for (const ProgramValue& value : program.values) know(value);
  std::vector<std::string> lines;
  for (const AnyStep& step : program.steps) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      std::string& line = lines.emplace_back(call->op + " by " + call->row + " ->");
      for (const ProgramValue& out : call->out) line += ' ' + know(out);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      lines.push_back((move->implicit ? "implicit for " + move->needed_by : "written") + ": " +
                      lies[move->value] + " -> " + know(move->out));
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      for (const ProgramValue& out : region->out) know(out);
    }
  }
  return lines;
}

TEST_CASE("greedy propagation decides as dispatch did under every composition", "[simulate]") {
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  OpTable ops;
  add_builtin_ops(ops);
  for (const Composition& composition : compositions()) {
    INFO(composition.name);
    const ModelConfig config = config_of(composition, Scenario::kBalanced);
    const TokenData data = value_or_throw(TokenData::read(files, config));
    const Program captured = value_or_throw(
        trace_step(config, composition.parallel, {.num_ranks = composition.num_ranks()}, data));
    const PropagatedProgram greedy =
        value_or_throw(propagate_program(captured, ops, {.mode = PropagateMode::kGreedy}));
    const std::vector<std::string> decided = decisions_of(value_or_throw(unfold(greedy.program)));
    const std::vector<std::string> seen = decisions_of(captured);
    const auto [a, b] = std::mismatch(decided.begin(), decided.end(), seen.begin(), seen.end());
    INFO("step " << a - decided.begin() << ": " << (a == decided.end() ? std::string("none") : *a)
                 << "\nnot: " << (b == seen.end() ? std::string("none") : *b));
    CHECK(decided.size() == seen.size());
    CHECK((a == decided.end() && b == seen.end()));
  }
}

}  // namespace
}  // namespace tessera::testing
