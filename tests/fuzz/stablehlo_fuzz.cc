// A module of StableHLO. What is accepted is a program that its own reader takes and gives back
// alike; what is not is told with its place.
#include "program/program_json.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "tests/fuzz/fuzz.h"

namespace tessera {
namespace {

void try_stablehlo(std::string_view text) {
  static const OpTable* const table = [] {
    auto* made = new OpTable;
    add_builtin_ops(*made);
    return made;
  }();
  const StatusOr<Program> program = program_of_stablehlo(text, "m", *table);
  testing::check_text(program.status(), "m:");
  if (!program.ok()) return;
  const std::string written = write_program(*program);
  const StatusOr<Program> again = read_program(written, "again", *table);
  TSR_CHECK(again.ok(), written + ": " + std::string(message_of(again.status())));
  TSR_CHECK(*again == *program, written);
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tessera::try_stablehlo({reinterpret_cast<const char*>(data), size});
  return 0;
}
