// placement-audit trace --stablehlo: a module's program, what it says of it in text, and what is
// refused.
#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

Ran trace_module(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), "trace");
  return run_program("placement-audit", arguments, input);
}

TEST_CASE("trace makes a program that show reads", "[tools][trace]") {
  const std::string module = testing::test_data("/stablehlo/mlp_step.propagated.mlir");
  const Ran traced = trace_module({"--stablehlo", module});
  CHECK(traced.exit_code == 0);
  CHECK(traced.err.empty());
  const Ran shown = run_program("placement-audit", {"show", "-"}, traced.out);
  CHECK(shown.exit_code == 0);
  const Json answer = value_or_throw(parse_json(shown.out, "show"));
  CHECK(*answer.find("source")->if_string() == "stablehlo");
  CHECK(*answer.find("ranks")->if_integer() == 8);
  // By jax's HLO: the second product's sum over tp, both weights' and the loss' over dp. F32[32,
  // 256] at 2 * 3 / 4, twice 256 KiB at 2 * 1 / 2, and 4.
  CHECK(*answer.find("cost")->find("bytes")->find("max")->if_integer() == 49'152 + 2 * 262'144 + 4);
}

TEST_CASE("trace says in text what no op says", "[tools][trace]") {
  const Ran ran = trace_module(
      {"--stablehlo", "-", "--format", "text"},
      "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = stablehlo.cbrt %a : "
      "tensor<4xf32>\n  %1 = stablehlo.tanh %0 : tensor<4xf32>\n  return %1 : tensor<4xf32>\n}\n");
  CHECK(ran.exit_code == 0);
  CHECK(ran.out ==
        ": 1 ranks, 1 values before the first step, 1 calls of ops, 0 redistributions, 0 repeats\n"
        "     1 stablehlo.cbrt: no op of the table says what it does, nor what it would move\n");
}

TEST_CASE("trace refuses what it cannot read", "[tools][trace]") {
  const Ran none = trace_module({});
  CHECK(none.exit_code == 2);
  CHECK(none.err.find("give one of --train, --program, --stablehlo and --torch") !=
        std::string::npos);
  const Ran missing = trace_module({"--stablehlo", "nowhere.mlir"});
  CHECK(missing.exit_code == 4);
  const Ran wrong = trace_module({"--stablehlo", "-"}, "module {\n  llvm.func\n}\n");
  CHECK(wrong.exit_code == 3);
  CHECK(wrong.out.empty());
  CHECK(wrong.err ==
        "placement-audit: standard input:2:3: \"llvm.func\": expected module, sdy.mesh, func.func "
        "or an alias such as #loc = loc(…)\n");
}

}  // namespace
}  // namespace tessera
