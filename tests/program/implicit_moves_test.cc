// What placed calls have to move: the cheapest row, operands that serve twice, rounds of a repeat.
#include "program/implicit_moves.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_format.h"
#include "program/program_json.h"
#include "tests/support/builtin_ops.h"

namespace tessera {
namespace {

std::string tensor(const std::string& name, const std::string& shape,
                   const std::string& placements) {
  return absl::StrFormat(R"j({"name":"%s","shape":[%s],"dtype":"F32","mesh":"m","placements":%s)j",
                         name, shape, placements);
}
std::string input(const std::string& name, const std::string& shape,
                  const std::string& placements) {
  return tensor(name, shape, placements) + R"j(,"role":"input"})j";
}

/// On 4 ranks of an axis tp.
Program with_moves_of(const std::string& values, const std::string& steps) {
  const std::string text =
      R"j({"version":1,"name":"p","source":{"kind":"program"},"ranks":4,"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[)j" +
      values + "],\"steps\":[" + steps + "]}";
  const Program program = with_moves(
      value_or_throw(read_program(text, "p", testing::builtin_ops())), testing::builtin_ops());
  // It is a program still.
  CHECK(value_or_throw(read_program(write_program(program), "again", testing::builtin_ops())) ==
        program);
  return program;
}

const CallStep& call_at(const Program& program, std::size_t step) {
  return std::get<CallStep>(program.steps[step].what);
}
const MoveStep& move_at(const Program& program, std::size_t step) {
  return std::get<MoveStep>(program.steps[step].what);
}
std::string placed(const Program& program, const ProgramValue& value) {
  return to_string(value_or_throw(value_or_throw(spec_of(program, value)).placements()));
}

const std::string kThin =
    input("a", "64,4", R"j(["S(1)"])j") + "," + input("b", "4,4096", R"j(["S(0)"])j");
std::string product(const std::string& placements) {
  return R"j({"op":"matmul","args":["a","b"],"out":[)j" + tensor("y", "64,4096", placements) +
         "}]}";
}

TEST_CASE("a result without placements takes those of the row that moves nothing", "[program]") {
  const Program program = with_moves_of(kThin, product("null"));
  REQUIRE(program.steps.size() == 1);
  CHECK(placed(program, call_at(program, 0).out[0]) == "(P(sum))");
}

TEST_CASE("the row is that by which operands and result together move least", "[program]") {
  // A reduce-scatter of y would bring each rank 3/4 of 1 MiB / 4 thrice; a and b have 1 and 64 KiB.
  const Program program = with_moves_of(kThin, product(R"j(["S(0)"])j"));
  REQUIRE(program.steps.size() == 3);
  CHECK(move_at(program, 0).value == "a");
  CHECK(placed(program, move_at(program, 0).out) == "(S(0))");
  CHECK(move_at(program, 0).needed_by == "matmul.self");
  CHECK(move_at(program, 1).value == "b");
  CHECK(placed(program, move_at(program, 1).out) == "(R)");
  CHECK(move_at(program, 1).implicit);
  CHECK(call_at(program, 2).args == Json::Array{"a.moved", "b.moved"});
  CHECK(call_at(program, 2).out[0].name == "y");
}

TEST_CASE("a value that was moved serves again, and results go where they are declared",
          "[program]") {
  const std::string twice =
      R"j({"op":"exp","args":["a"],"out":[)j" + tensor("y", "64,4", R"j(["R"])j") +
      R"j(}]},{"op":"tanh","args":["a"],"out":[)j" + tensor("z", "64,4", R"j(["R"])j") + "}]}";
  const Program program = with_moves_of(input("a", "64,4", R"j(["S(0)"])j"), twice);
  // Gathering before or after costs the same; a is gathered after the first, so both are.
  std::size_t moves = 0;
  for (const AnyStep& step : program.steps) {
    moves += std::holds_alternative<MoveStep>(step.what) ? 1 : 0;
  }
  CHECK(moves == 2);
  CHECK(move_at(program, 1).value == "y.made");
  CHECK(move_at(program, 1).out.name == "y");
  CHECK(move_at(program, 1).needed_by == "result of exp");
  const std::string sums =
      R"j({"op":"mm","args":["p","w"],"out":[)j" + tensor("y", "8,8", R"j(["S(1)"])j") +
      R"j(}]},{"op":"mm","args":["p","v"],"out":[)j" + tensor("z", "8,8", R"j(["S(1)"])j") + "}]}";
  const Program shared =
      with_moves_of(input("p", "8,8", R"j(["S(0)"])j") + "," + input("w", "8,8", R"j(["S(1)"])j") +
                        "," + input("v", "8,8", R"j(["S(1)"])j"),
                    sums);
  REQUIRE(shared.steps.size() == 3);
  CHECK(move_at(shared, 0).value == "p");
  CHECK(call_at(shared, 1).args == Json::Array{"p.moved", "w"});
  CHECK(call_at(shared, 2).args == Json::Array{"p.moved", "v"});
}

TEST_CASE("a round ends where the next one begins", "[program]") {
  const Program program =
      with_moves_of(input("a", "4,4", R"j(["S(0)"])j") + "," + input("w", "4,4", R"j(["S(1)"])j"),
                    R"j({"repeat":3,"as":"layers","steps":[{"op":"mm","args":["w","w"],"out":[)j" +
                        tensor("y", "4,4", R"j(["S(0)"])j") + R"j(}]}],"carry":{"a":"y"}})j");
  const auto& repeat = std::get<RepeatStep>(program.steps[0].what);
  CHECK(repeat.carry[0] == std::pair<std::string, std::string>("a", "y"));
  CHECK(repeat.steps.size() > 1);
  // A result without placements may end elsewhere.
  const Program late =
      with_moves_of(input("a", "4,4", R"j(["R"])j") + "," + input("w", "4,4", R"j(["S(0)"])j"),
                    R"j({"op":"exp","args":["w"],"out":[)j" + tensor("y", "4,4", "null") + "}]}");
  CHECK(placed(late, call_at(late, 0).out[0]) == "(S(0))");
}

TEST_CASE("calls on more axes than are searched are regions that say so", "[program]") {
  std::string axes, sizes, whole;
  for (int axis = 0; axis < 9; ++axis) {
    axes += absl::StrFormat(R"j(%s"a%d")j", axis == 0 ? "" : ",", axis);
    sizes += axis == 0 ? "2" : ",2";
    whole += axis == 0 ? R"j("R")j" : R"j(,"R")j";
  }
  const std::string text =
      R"j({"version":1,"name":"p","source":{"kind":"program"},"ranks":512,"meshes":{"m":{"shape":[)j" +
      sizes + R"j(],"axes":[)j" + axes + R"j(]}},"values":[)j" +
      input("a", "4,4", "[" + whole + "]") + R"j(],"steps":[{"op":"exp","args":["a"],"out":[)j" +
      tensor("y", "4,4", "[" + whole + "]") + "}]}]}";
  const Program program = with_moves(
      value_or_throw(read_program(text, "p", testing::builtin_ops())), testing::builtin_ops());
  CHECK(std::get<RegionStep>(program.steps[0].what).warning ==
        "its mesh has 9 axes; what a call moves is worked out on at most 8");
}

TEST_CASE("calls of free values stay as they are", "[program]") {
  const Program program =
      with_moves_of(input("a", "4,4", "null"), R"j({"op":"exp","args":["a"],"out":[)j" +
                                                   tensor("y", "4,4", R"j(["R"])j") + "}]}");
  REQUIRE(program.steps.size() == 1);
  CHECK(call_at(program, 0).row.empty());
}

}  // namespace
}  // namespace tessera
