// placement-audit trace: what a rank does in a step, as a program that other commands read.
#include <catch2/catch.hpp>

#include "io/file.h"
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;
using testing::ScratchFolder;

Ran trace(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "trace");
  return run_program("placement-audit", arguments, "");
}

const std::string kOps = R"j({"mesh":{"shape":[4],"axes":["tp"]},
"inputs":{"a":{"shape":[64,4],"placements":["S(1)"]},"b":{"shape":[4,4096],"placements":["S(0)"]}},
"program":[{"op":"matmul","args":["a","b"],"out":["c"]},{"op":"relu","args":["c"],"out":["d"]}]})j";

/// What `show` says that the rank with most receives.
std::int64_t received(const Ran& traced) {
  const Ran shown = run_program("placement-audit", {"show", "-"}, traced.out);
  const Json json = value_or_throw(parse_json(shown.out, "shown"));
  return *json.find("cost")->find("bytes")->find("max")->if_integer();
}

TEST_CASE("a program of ops is traced without values", "[tools][trace]") {
  const ScratchFolder folder;
  const std::string ops = folder.file("ops.json", kOps);
  const Ran ran = trace({"--program", ops, "--simulate-rank", "3"});
  REQUIRE(ran.exit_code == 0);
  const Json program = value_or_throw(parse_json(ran.out, "traced"));
  CHECK(program.find("source")->find("by")->to_string() == "\"placement-audit trace\"");
  const Json::Array& steps = *program.find("steps")->if_array();
  REQUIRE(steps.size() >= 3);
  CHECK(steps[0].find("op")->to_string() == "\"matmul\"");
  // 1 MiB of summands: each rank gets a fourth of those of three others.
  CHECK(steps[1].find("for")->to_string() == "\"relu.self\"");
  CHECK(steps[1].find("moves")->to_string() ==
        R"([{"collective":"reduce_scatter","axes":["tp"],"ranks":4,)"
        R"("bytes":{"max":786432,"total":3145728}}])");
  const Ran shown = run_program("placement-audit", {"show", "-", "--format", "text"}, ran.out);
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("reduce_scatter over tp, implicit") != std::string::npos);
  CHECK(trace({"--program", ops, "--simulate-rank", "3"}).out == ran.out);
}

TEST_CASE("a step of training is traced on a rank of any number", "[tools][trace]") {
  const std::string config = testing::test_data("/../../configs/debug.json");
  const Ran ran = trace({"--train", config, "--ranks", "4", "--simulate-rank", "3", "--parallel",
                         R"({"dp_shard":2,"tp":2,"ep":4})"});
  REQUIRE(ran.exit_code == 0);
  const Json program = value_or_throw(parse_json(ran.out, "traced"));
  CHECK(program.find("ranks")->to_string() == "4");
  CHECK(program.find("scenario")->to_string() == R"({"routing":"balanced"})");
  const Ran shown = run_program("placement-audit", {"show", "-", "--format", "text"}, ran.out);
  CHECK(shown.exit_code == 0);
  CHECK(shown.out.find("all_to_all over ep") != std::string::npos);
}

TEST_CASE("a step of training is traced under the routing that is asked for", "[tools][trace]") {
  const std::string config = testing::test_data("/../../configs/debug.json");
  const ScratchFolder folder;
  const auto traced = [&](const std::string& routing) {
    return trace({"--train", config, "--ranks", "4", "--simulate-rank", "3", "--routing", routing,
                  "--parallel", R"({"dp_shard":2,"tp":2,"ep":4})"});
  };
  const Ran balanced = traced("balanced"), worst = traced("worst");
  REQUIRE(worst.exit_code == 0);
  CHECK(value_or_throw(parse_json(worst.out, "traced")).find("scenario")->to_string() ==
        R"({"routing":"worst"})");
  CHECK(traced("worst").out == worst.out);
  CHECK(received(worst) > received(balanced));
  const std::string none = folder.file("none.json", R"({"version":1,"experts":[]})");
  const Ran refused = traced(none);
  CHECK(refused.exit_code == 3);
  CHECK(refused.err.find("none.json: /experts: 0 loads; one for each of num_experts") !=
        std::string::npos);
  CHECK(traced("/no/such.json").exit_code == 4);
}

TEST_CASE("tessera-train --simulate prints what its program moves", "[tools][trace]") {
  const std::string path = testing::test_data("/../../configs/debug.json");
  std::string text = value_or_throw(read_file(path, 1 << 20));
  text.insert(text.find('{') + 1, R"("force_balance":true,)");
  const ScratchFolder folder;
  const std::string config = folder.file("config.json", text);
  const std::vector<std::string> meshed = {"--ranks", "4", "--parallel",
                                           R"({"dp_shard":2,"tp":2,"ep":4})"};
  std::vector<std::string> arguments = {"--config", config,   "--simulate",
                                        "3",        "--data", testing::test_data("/../../LICENSE")};
  arguments.insert(arguments.end(), meshed.begin(), meshed.end());
  const Ran printed = run_program("tessera-train", arguments, "");
  REQUIRE(printed.exit_code == 0);
  CHECK(printed.out.starts_with("Rank 3 of 4, one step under forced balance; at most "));
  arguments = {"--train", config, "--simulate-rank", "3"};
  arguments.insert(arguments.end(), meshed.begin(), meshed.end());
  const Ran shown = run_program("placement-audit", {"show", "-"}, trace(arguments).out);
  const Json cost = *value_or_throw(parse_json(shown.out, "shown")).find("cost");
  CHECK(printed.out.find(" in " + cost.find("calls")->to_string() + " calls\n") !=
        std::string::npos);
  CHECK(printed.out.find("  all_to_all       ep         explicit ") != std::string::npos);
}

TEST_CASE("trace refuses what it cannot run", "[tools][trace]") {
  const std::string config = testing::test_data("/../../configs/debug.json");
  const Ran nothing = trace({});
  CHECK(nothing.exit_code == 2);
  CHECK(nothing.err ==
        "placement-audit: trace: give one of --train, --program, --stablehlo and --torch\n");
  const Ran other = trace({"--train", config, "--dtype", "F16"});
  CHECK(other.exit_code == 3);
  CHECK(other.err == "placement-audit: --dtype \"F16\": F32, F64 and BF16 are allowed\n");
  const Ran outside = trace({"--train", config, "--ranks", "4", "--simulate-rank", "4"});
  CHECK(outside.exit_code == 3);
  CHECK(outside.err == "placement-audit: --simulate-rank 4: ranks 0 to 3 are allowed\n");
  const ScratchFolder folder;
  const std::string ops = folder.file("ops.json", kOps);
  CHECK(trace({"--program", ops, "--simulate-rank", "4"}).err ==
        "placement-audit: --simulate-rank 4: the program has ranks 0 to 3\n");
  CHECK(trace({"--program", ops, "--train", config}).exit_code == 2);
  CHECK(trace({"--train", "/no/such.json"}).exit_code == 4);
}

}  // namespace
}  // namespace tessera
