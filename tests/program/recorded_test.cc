// Programs that the tracer of PyTorch recorded (python/tests/recorded.py): they are read whole, and
// the planner needs no more bytes than PyTorch for any redistribution in them.
#include <catch2/catch.hpp>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "io/file.h"
#include "program/module_cost.h"
#include "program/program_json.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

Program recorded(const std::string& name) {
  const std::string path = testing::test_data("/programs/torch_" + name + ".json");
  const std::string text = value_or_throw(read_file(path, kMaxProgramTextBytes));
  return value_or_throw(read_program(text, name, testing::builtin_ops()));
}

std::int64_t total_of(std::span<const ProgramMove> moves) {
  std::int64_t sum = 0;
  for (const ProgramMove& move : moves) sum += move.bytes.total;
  return sum;
}

TEST_CASE("what PyTorch redistributes, the planner does with no more bytes", "[recorded]") {
  std::int64_t compared = 0;
  for (const char* const name :
       {"llama", "llama_stages", "deepseek", "implicit_gather", "decoder", "router"}) {
    CAPTURE(name);
    const Program program = recorded(name);
    absl::flat_hash_map<std::string, const ProgramValue*> known;
    for (const ProgramValue& value : program.values) known[value.name] = &value;
    for (const AnyStep& step : program.steps) {
      if (const auto* call = std::get_if<CallStep>(&step.what)) {
        for (const ProgramValue& out : call->out) known[out.name] = &out;
      } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        for (const ProgramValue& out : region->out) known[out.name] = &out;
      } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        known[move->out.name] = &move->out;
        const ProgramValue& from = *known.at(move->value);
        // PyTorch's price of a reduction is a ring's: of a scalar, fractions of an element.
        if (!move->moves || !from.layout || !move->out.layout || from.global_shape.empty())
          continue;
        CAPTURE(move->value);
        const auto planned = value_or_throw(moves_of(program, from, move->out));
        CHECK(total_of(planned) <= total_of(*move->moves));
        ++compared;
      }
    }
  }
  CHECK(compared > 40);
}

TEST_CASE("recorded programs tell what was planted in them", "[recorded]") {
  const ModuleCost gather = value_or_throw(module_cost(recorded("implicit_gather")));
  CHECK(gather.implicit_bytes.max > 0);
  CHECK(value_or_throw(module_cost(recorded("llama"))).implicit_bytes.max == 0);
  const Program router = recorded("router");
  REQUIRE(router.warnings.size() == 1);
  CHECK(router.warnings[0] ==
        "grad.experts may differ along dp, where the parameter does not: a reduction is missing");
  // Two stages, each on half of the ranks.
  const Program stages = recorded("llama_stages");
  CHECK(stages.meshes[0].stage == 0);
  CHECK(stages.meshes[1].of == 2);
  CHECK(slices_alike(stages, stages.meshes[1]) == 2);
}

}  // namespace
}  // namespace tessera
