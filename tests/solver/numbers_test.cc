// Numbers among the operands of calls, as traces of PyTorch have them: plain 0-d tensors, which lie
// on every rank.
#include <catch2/catch.hpp>

#include "program/implicit_moves.h"
#include "program/memory.h"
#include "program/program_json.h"
#include "program/solver/propagate_program.h"
#include "tests/support/builtin_ops.h"

namespace tessera {
namespace {

using testing::builtin_ops;

/// relu(1 - 0.5 (a b)), a cut by columns and b by rows.
const char* const kText = R"j({"version":1,"name":"p","source":{"kind":"program"},"ranks":4,
 "meshes":{"m":{"shape":[4],"axes":["tp"]}},
 "values":[{"name":"a","shape":[64,4],"dtype":"F32","mesh":"m","placements":["S(1)"],"role":"input"},
  {"name":"b","shape":[4,4096],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"}],
 "steps":[
  {"op":"matmul","args":["a","b"],"out":[{"name":"c","shape":[64,4096],"dtype":"F32","mesh":"m","placements":null}]},
  {"op":"mul","args":["c",0.5],"out":[{"name":"d","shape":[64,4096],"dtype":"F32","mesh":"m","placements":null}]},
  {"op":"sub","args":[1,"d"],"out":[{"name":"e","shape":[64,4096],"dtype":"F32","mesh":"m","placements":null}]},
  {"op":"relu","args":["e"],"out":[{"name":"f","shape":[64,4096],"dtype":"F32","mesh":"m","placements":null}]}]})j";

Program program_of(const std::string& text) {
  return value_or_throw(read_program(text, "p", builtin_ops()));
}
/// The placements of what each call makes, in order.
std::string made_by_calls(const Program& program) {
  std::string text;
  for (const AnyStep& step : program.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr) continue;
    const Spec spec = value_or_throw(spec_of(program, call->out[0]));
    text += call->op + ' ' + to_string(value_or_throw(spec.placements())) + '\n';
  }
  return text;
}

TEST_CASE("calls with numbers are placed as others are", "[solver]") {
  const Program program = program_of(kText);
  const PropagatedProgram solved = value_or_throw(propagate_program(program, builtin_ops(), {}));
  CHECK(solved.cost == 52224);  // two moves before the product
  CHECK(made_by_calls(solved.program) == "matmul (S(1))\nmul (S(1))\nsub (S(1))\nrelu (S(1))\n");
  CHECK(value_or_throw(price_of(solved.program, builtin_ops(), {})) == solved.cost);
  // The product, which is scaled as it is summed; the sum with 1 is not linear.
  const PropagatedProgram greedy =
      value_or_throw(propagate_program(program, builtin_ops(), {.mode = PropagateMode::kGreedy}));
  CHECK(greedy.cost == 3145728);
  CHECK(made_by_calls(greedy.program).starts_with("matmul (P(sum))\nmul (P(sum))\n"));
  // As written, they are numbers still.
  const std::string text = write_program(solved.program);
  CHECK(text.find("0.5]") != std::string::npos);
  CHECK(program_of(text) == solved.program);
}

TEST_CASE("numbers take no memory, and moves are written around them", "[solver]") {
  const Program solved =
      value_or_throw(propagate_program(program_of(kText), builtin_ops(), {})).program;
  const StageMemory memory = value_or_throw(memory_of(solved, builtin_ops())).at(0);
  CHECK(memory.unplaced == 0);
  std::string whole = kText;
  for (std::size_t at; (at = whole.find("null")) != std::string::npos;) {
    whole.replace(at, 4, R"(["R"])");
  }
  const Program moved = with_moves(program_of(whole), builtin_ops());
  for (const AnyStep& step : moved.steps) CHECK(!std::holds_alternative<RegionStep>(step.what));
}

TEST_CASE("a fraction among integers is no tensor of theirs", "[solver]") {
  const char* const text = R"j({"version":1,"name":"p","source":{"kind":"program"},"ranks":4,
   "meshes":{"m":{"shape":[4],"axes":["tp"]}},
   "values":[{"name":"a","shape":[64],"dtype":"I64","mesh":"m","placements":["S(0)"],"role":"input"}],
   "steps":[{"op":"mul","args":["a",0.5],"out":[
     {"name":"b","shape":[64],"dtype":"F32","mesh":"m","placements":["S(0)"]}]}]})j";
  const PropagatedProgram solved =
      value_or_throw(propagate_program(program_of(text), builtin_ops(), {}));
  CHECK(solved.cost == 0);
  CHECK(made_by_calls(solved.program) == "mul (S(0))\n");
}

}  // namespace
}  // namespace tessera
