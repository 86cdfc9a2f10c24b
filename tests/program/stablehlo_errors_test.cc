// What is refused of StableHLO's text, each with its place; and modules of jax, as they are and
// changed at random.
#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "absl/strings/str_replace.h"
#include "io/file.h"
#include "program/program_json.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/changed_text.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

std::string refusal_of(const std::string& text) {
  const StatusOr<Program> program = program_of_stablehlo(text, "m.mlir", testing::builtin_ops());
  return program.ok() ? "fine" : std::string(message_of(program.status()));
}

const std::string kModule = R"(module @m {
  sdy.mesh @mesh = <["dp"=2, "tp"=4]>
  func.func public @main(%arg0: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> tensor<8x16xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<8x16xf32>
    %1 = call @f(%0) : (tensor<8x16xf32>) -> tensor<8x16xf32>
    return %1 : tensor<8x16xf32>
  }
  func.func private @f(%arg0: tensor<8x16xf32>) -> tensor<8x16xf32> {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{}, {"tp"}]> : tensor<8x16xf32>
    return %0 : tensor<8x16xf32>
  }
}
)";

/// The refusal of the module with one text in another's place.
std::string refusal_with(const std::string& from, const std::string& to) {
  const std::string changed = absl::StrReplaceAll(kModule, {{from, to}});
  REQUIRE(changed != kModule);
  return refusal_of(changed);
}

TEST_CASE("what does not read as a module is refused with line and column",
          "[program][stablehlo]") {
  REQUIRE(refusal_of(kModule) == "fine");
  CHECK(refusal_of("") ==
        "m.mlir:1:1: expected a function @main with a body, or a single function");
  CHECK(refusal_of("\xff") == "m.mlir:1:1: bytes that are no UTF-8");
  CHECK(
      refusal_of("llvm.func @f()") ==
      "m.mlir:1:1: \"llvm.func\": expected module, sdy.mesh, func.func or an alias such as #loc = "
      "loc(…)");
  CHECK(refusal_of("module {\n  `\n}") == "m.mlir:2:3: \"`\" begins nothing that MLIR's text has");
  CHECK(refusal_with("@main", "@other") ==
        "m.mlir:13:1: expected a function @main with a body, or a single function");
  CHECK(refusal_with("@f(%arg0: tensor<8x16xf32>) ->", "@g(%arg0: tensor<8x16xf32>) ->") ==
        "m.mlir:5:15: \"@f\": no such function");
  CHECK(refusal_with("@f(%arg0: tensor<8x16xf32>) ->", "@main(%arg0: tensor<8x16xf32>) ->") ==
        "m.mlir:8:21: \"@main\": a function has this name already");
  CHECK(refusal_with("tanh %arg0", "tanh %arg1") ==
        "m.mlir:4:25: \"%arg1\": no such value before it in this function");
  CHECK(refusal_with("%0 = stablehlo.tanh %arg0 : tensor<8x16xf32>", "%0 = stablehlo.tanh %arg0") ==
        "m.mlir:4:5: stablehlo.tanh: expected ':' and types behind it");
  CHECK(refusal_with("stablehlo.tanh %arg0 : tensor<8x16xf32>",
                     "stablehlo.tanh %arg0 : tensor<8x?xf32>") ==
        "m.mlir:4:33: tensor<8x?xf32>: a size that is not known; all must be");
  CHECK(refusal_with("stablehlo.tanh %arg0 : tensor<8x16xf32>",
                     "stablehlo.tanh %arg0 : tuple<f32>") ==
        "m.mlir:4:33: \"tuple\": expected tensor<…> of known sizes as a type");
  CHECK(refusal_with("stablehlo.tanh %arg0", "stablehlo.tanh %arg0 \"open") ==
        "m.mlir:4:31: a string that does not end; expected '\"'");
  CHECK(refusal_with("return %1 :", "return %0 :") == "fine");
  CHECK(refusal_with("return %1 : tensor<8x16xf32>", "")
            .starts_with("m.mlir:7:3: expected a return before the end"));
  CHECK(refusal_of("module {\n  func.func @main() {\n") ==
        "m.mlir:2:21: a brace that is not closed; expected '}'");
}

TEST_CASE("shardings that fit no mesh or tensor are refused", "[program][stablehlo]") {
  CHECK(refusal_with("<@mesh, [{}, {\"tp\"}]>", "<@other, [{}, {\"tp\"}]>") ==
        "m.mlir:9:40: \"@other\": no such mesh");
  CHECK(refusal_with("[{}, {\"tp\"}]", "[{}, {\"ep\"}]") ==
        "m.mlir:9:54: \"ep\": no such axis; the mesh has \"dp\", \"tp\"");
  CHECK(refusal_with("[{}, {\"tp\"}]", "[{\"tp\"}, {\"tp\"}]") ==
        "m.mlir:9:58: axis \"tp\" is used twice; each cuts one dim, or none");
  CHECK(refusal_with("[{}, {\"tp\"}]", "[{\"tp\"}]") ==
        "m.mlir:9:40: a sharding of 1 dims for a tensor of 2");
  CHECK(refusal_with("<@mesh, [{}, {\"tp\"}]>", "<[{}, {\"tp\"}]>").starts_with("m.mlir:9:"));
  CHECK(refusal_with("[{}, {\"tp\"}]", "[{}, {\"tp\":(3)2}]") ==
        "m.mlir:2:30: axis \"tp\" of 4 ranks is cut behind 3 and 4 of them; one must divide the "
        "other");
  CHECK(refusal_with("\"tp\"=4]>", "\"tp\"=4], device_ids=[1, 0, 2, 3, 4, 5, 6, 7]>") ==
        "m.mlir:2:50: device_ids in another order; allowed is that of their numbers, from 0");
  CHECK(refusal_with("\"tp\"=4]", "\"t p\"=4]")
            .starts_with("m.mlir:2:12: mesh: 't p' is no axis "
                         "name"));
  CHECK(refusal_with("\"tp\"=4]", "\"tp\"=0]") == "m.mlir:2:30: an axis of 0 ranks");
}

TEST_CASE("text without end, and functions that call themselves, are refused",
          "[program][stablehlo]") {
  std::string open = "func.func @main(%a: tensor<f32> {a = ";
  for (int i = 0; i < 100; ++i) open += "[";
  CHECK(refusal_of(open).ends_with("brackets in more than 64 others"));
  CHECK(refusal_with("sdy.sharding_constraint %arg0 <@mesh, [{}, {\"tp\"}]> : tensor<8x16xf32>",
                     "call @f(%arg0) : (tensor<8x16xf32>) -> tensor<8x16xf32>")
            .ends_with("calls in more than 64 others"));
  // Each calls the next one twice: 2^40 operations of 40 functions.
  std::string twice = "module {\n";
  for (int i = 0; i < 40; ++i) {
    const std::string name = i == 0 ? "main" : "f" + std::to_string(i);
    const std::string next = "f" + std::to_string(i + 1);
    twice += "func.func @" + name + "(%a: tensor<f32>) -> tensor<f32> {\n";
    twice += "  %0 = call @" + next + "(%a) : (tensor<f32>) -> tensor<f32>\n";
    twice += "  %1 = call @" + next + "(%0) : (tensor<f32>) -> tensor<f32>\n";
    twice += "  return %1 : tensor<f32>\n}\n";
  }
  twice += "func.func @f40(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}\n}\n";
  CHECK(
      refusal_of(twice).ends_with("more than 2000000 operations, operands and results, each "
                                  "function as often as it is called"));
}

std::string module_of_jax(const std::string& name) {
  return value_or_throw(
      read_file(testing::test_data("/stablehlo/" + name + ".mlir"), kMaxStablehloBytes));
}

TEST_CASE("modules of jax: their operations are said by our ops", "[program][stablehlo]") {
  for (const std::string layer : {"mlp", "stack", "attention", "moe", "moe_exchange"}) {
    for (const std::string form : {"", "_step", ".propagated", "_step.propagated"}) {
      CAPTURE(layer, form);
      const Program program = value_or_throw(
          program_of_stablehlo(module_of_jax(layer + form), "jax", testing::builtin_ops()));
      CHECK(program.ranks == 8);
      int calls = 0, foreign = 0;
      const std::function<void(const std::vector<AnyStep>&)> count =
          [&](const std::vector<AnyStep>& steps) {
            for (const AnyStep& step : steps) {
              calls += std::holds_alternative<CallStep>(step.what) ? 1 : 0;
              const auto* region = std::get_if<RegionStep>(&step.what);
              foreign += region != nullptr && !region->warning.empty() ? 1 : 0;
              const auto* repeat = std::get_if<RepeatStep>(&step.what);
              if (repeat != nullptr) count(repeat->steps);
            }
          };
      count(program.steps);
      CHECK(foreign == 0);
      CHECK(calls >= (layer == "moe_exchange" ? 0 : 10));
      const std::string written = write_program(program);
      CHECK(value_or_throw(read_program(written, "again", testing::builtin_ops())) == program);
    }
  }
}

TEST_CASE("10,000 changed modules are read alike twice, or refused with their place",
          "[program][stablehlo]") {
  const std::string modules[] = {kModule, module_of_jax("mlp"), module_of_jax("mlp.propagated"),
                                 module_of_jax("moe_exchange")};
  std::mt19937 random(1);
  const auto below = [&](std::size_t count) { return random() % count; };
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    const std::string text =
        testing::changed_text(modules[round % 8 == 0 ? 1 + below(3) : 0], random);
    const StatusOr<Program> program = program_of_stablehlo(text, "m.mlir", testing::builtin_ops());
    if (!program.ok()) {
      REQUIRE(message_of(program.status()).starts_with("m.mlir:"));
      continue;
    }
    ++accepted;
    if (round % 4 != 0) continue;
    const std::string written = write_program(*program);
    REQUIRE(value_or_throw(read_program(written, "again", testing::builtin_ops())) == *program);
  }
  CHECK(accepted > 1000);
}

}  // namespace
}  // namespace tessera
