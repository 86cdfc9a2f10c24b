// A program of a whole step. What is accepted names only values that are there, is the same after
// it was written and read again, unfolds or says why not, and costs no less than its modules; what
// is not is told with its place.
#include "program/memory.h"
#include "program/module_cost.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_ops.h"

namespace tessera {
namespace {

void check_value(const Program& program, const ProgramValue& value) {
  TSR_CHECK(!value.name.empty(), "a value without a name");
  TSR_CHECK(!value.mesh || *value.mesh < static_cast<int>(program.meshes.size()), value.name);
  TSR_CHECK(!value.layout || value.mesh, value.name);
}

void check_steps(const Program& program, const std::vector<AnyStep>& steps) {
  for (const AnyStep& step : steps) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      for (const ProgramValue& value : call->out) check_value(program, value);
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      for (const ProgramValue& value : region->out) check_value(program, value);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      check_value(program, move->out);
    } else if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      check_steps(program, repeat->steps);
    }
  }
}

void try_whole_program(std::string_view text) {
  static const OpTable* const table = new OpTable(testing::fuzz_ops());
  const StatusOr<Program> program = read_program(text, "run", *table);
  testing::check_text(program.status(), "run:");
  if (!program.ok()) return;
  for (const ProgramValue& value : program->values) check_value(*program, value);
  check_steps(*program, program->steps);
  testing::check_text(unfold(*program, /*max_steps=*/1000).status(), "unfold: ");
  if (const StatusOr<ModuleCost> cost = module_cost(*program); cost.ok()) {
    TSR_CHECK(cost->bytes.max >= cost->implicit_bytes.max, std::string(text));
    std::int64_t steps = 0;
    for (const ModuleCost& each : cost->inside) steps += each.steps;
    TSR_CHECK(steps <= cost->steps, std::string(text));
  }
  if (const auto held = memory_of(*program, *table); held.ok()) {
    for (const StageMemory& stage : *held) {
      TSR_CHECK(stage.peak_bytes >= stage.start_bytes, std::string(text));
      TSR_CHECK(stage.peak_bytes >= stage.end_bytes, std::string(text));
    }
  }
  const std::string written = write_program(*program);
  const StatusOr<Program> again = read_program(written, "again", *table);
  TSR_CHECK(again.ok(), written + ": " + std::string(message_of(again.status())));
  TSR_CHECK(*again == *program, written);
  TSR_CHECK(write_program(*again) == written, written);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_whole_program({reinterpret_cast<const char*>(data), size});
  return 0;
}
