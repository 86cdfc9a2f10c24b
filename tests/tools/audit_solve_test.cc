// placement-audit solve and export: flags, formats, and what is said of wrong ones.
#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

const std::string kProduct = testing::test_data("/programs/product_then_relu.json");

Ran solve(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"solve", kProduct});
  return run_program("placement-audit", arguments, "");
}

std::string solved(const std::vector<std::string>& arguments) {
  const Ran ran = solve(arguments);
  CHECK(ran.exit_code == 0);
  CHECK(ran.err.empty());
  return ran.out;
}

/// What all ranks receive, by show.
std::int64_t bytes_of(const std::string& program) {
  const Ran ran = run_program("placement-audit", {"show", "-", "--format", "json"}, program);
  const Json shown = value_or_throw(parse_json(ran.out, "show"));
  return *shown.find("cost")->find("bytes")->find("total")->if_integer();
}

TEST_CASE("solve answers with the program, placed, and what greedy moves is 60 times more",
          "[tools][solve]") {
  CHECK(bytes_of(solved({"--mode", "greedy"})) == 3'145'728);
  CHECK(bytes_of(solved({})) <= 52'224);
  const Ran twice = solve({});
  CHECK(twice.out == solve({}).out);
  const Ran text = solve({"--format", "text"});
  CHECK(text.out.find("\nbound ") != std::string::npos);
  CHECK(text.out.find("\nwhat moves ") != std::string::npos);
  CHECK(text.out.find("\nwhere values lie") != std::string::npos);
}

TEST_CASE("what is solved is taken by the other commands and leaves", "[tools][solve]") {
  const std::string program = solve({}).out;
  for (const char* const command : {"show", "memory", "export"}) {
    CAPTURE(command);
    const Ran ran = run_program("placement-audit", {command, "-", "--format", "text"}, program);
    CHECK(ran.exit_code == 0);
    CHECK(ran.err.empty());
  }
  CHECK(solve({"--format", "torch"}).out.find("\ndef parallelize(model, mesh):\n") !=
        std::string::npos);
  CHECK(solve({"--format", "md"}).out.starts_with("# a product, then relu: placements\n"));
  const Ran shardy = solve({"--format", "shardy"});
  CHECK(run_program("placement-audit", {"trace", "--stablehlo", "-"}, shardy.out).exit_code == 0);
  CHECK(shardy.out ==
        run_program("placement-audit", {"export", "-", "--format", "shardy"}, program).out);
}

TEST_CASE("a mesh, pins and topologies are taken", "[tools][solve]") {
  const std::string placed =
      solved({"--mesh", "dp=2,tp=2", "--pin", "a=S(0),R", "--pin", "d=R,S(1)"});
  const Json program = value_or_throw(parse_json(placed, "solved"));
  CHECK(program.find("ranks")->to_string() == "4");
  CHECK(program.find("meshes")->to_string() == R"({"m":{"shape":[2,2],"axes":["dp","tp"]}})");
  CHECK((*program.find("values")->if_array())[0].find("placements")->to_string() ==
        R"j(["S(0)","R"])j");
  for (const char* const preset : {"host", "node8", "cluster"}) {
    CHECK(solve({"--topology", preset, "--tflops", "100", "--gb-per-s", "2000"}).exit_code == 0);
  }
  CHECK(solve({"--time-limit", "5", "--cap", "1GiB"}).exit_code == 0);
}

TEST_CASE("wrong flags of solve are usage errors, wrong programs are not", "[tools][solve]") {
  const std::vector<std::vector<std::string>> wrong = {{"--mode", "best"},
                                                       {"--mesh", "dp"},
                                                       {"--mesh", "dp=0"},
                                                       {"--mesh", "dp=2,dp=2"},
                                                       {"--mesh", "dp=2000000,tp=8"},
                                                       {"--pin", "a"},
                                                       {"--pin", "a=T(0)"},
                                                       {"--cap", "0"},
                                                       {"--cap", "80 gigs"},
                                                       {"--tflops", "100"},
                                                       {"--topology", "host", "--tflops", "-1"},
                                                       {"--gb-per-s", "2000"},
                                                       {"--topology", "host", "--gb-per-s", "0"},
                                                       {"--time-limit", "soon"},
                                                       {"--time-limit", "0"},
                                                       {"--format", "html"}};
  for (const std::vector<std::string>& arguments : wrong) {
    CAPTURE(arguments);
    const Ran ran = solve(arguments);
    CHECK(ran.exit_code == 2);
    CHECK(ran.out.empty());
    CHECK(testing::count_of(ran.err, "\n") == 1);
  }
  CHECK(solve({"--topology", "/no/such.json"}).exit_code == 3);
  CHECK(solve({"--topology", kProduct}).exit_code == 3);
  CHECK(solve({"--pin", "nothing=R"}).exit_code == 3);
  CHECK(solve({"--cap", "1"}).exit_code == 3);
  const Ran open = run_program("placement-audit", {"export", kProduct, "--format", "torch"}, "");
  CHECK(open.exit_code == 3);
  CHECK(open.err ==
        "placement-audit: value \"c\" has no placements yet; placement-audit solve finds them\n");
}

TEST_CASE("what Shardy cannot say is a warning of export", "[tools][solve]") {
  const Ran ran = run_program(
      "placement-audit",
      {"export", testing::test_data("/programs/torch_llama.json"), "--format", "shardy"}, "");
  CHECK(ran.exit_code == 3);
  CHECK(ran.out.starts_with("module @torch_llama {\n  sdy.mesh @world = <[\"dp\"=4, \"tp\"=2]>\n"));
  CHECK(
      ran.err.starts_with("placement-audit: left out: \"tok_embeddings.weight.gathered\": S(0): "
                          "its mesh is a slice of another\n"));
}

}  // namespace
}  // namespace tessera
