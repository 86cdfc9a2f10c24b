// placement-audit measure, and the file that it writes where --topology reads it.
#include "io/json.h"
#include "io/plan_json.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

const std::string kMove =
    R"j({"mesh":{"shape":[2,2]},"tensor":{"shape":[8,6]},"src":["S(0)","S(1)"],"dst":["R","R"]})j";

Topology topology_in(const std::string& text) {
  const JsonDocument document = value_or_throw(JsonDocument::parse(text, "topology"));
  return value_or_throw(read_topology(document.root()));
}

std::vector<std::string> measure(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"measure", "--seconds", "0.05"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("measure writes a topology that plan and run read", "[tools][measure]") {
  const ScratchFolder folder;
  const std::string file = folder / "topology.json";
  const Ran ran = run_program("placement-audit", measure({"--ranks", "3", "--output", file}));
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.empty());
  const Topology measured = topology_in(read_whole_file(file));
  CHECK(measured.name == "measured");
  CHECK(validate(measured).ok());
  CHECK(topology_in(to_json(measured).to_string()) == measured);
  const Ran planned = run_program("placement-audit", {"plan", "--topology", file}, kMove);
  INFO(planned.err);
  CHECK(planned.exit_code == 0);
  CHECK(planned.out.find("\"estimated_us\":null") == std::string::npos);
  const Ran shown =
      run_program("placement-audit", {"plan", "--format", "text", "--topology", file}, kMove);
  CHECK(shown.out.find("priced by topology measured") != std::string::npos);
}

TEST_CASE("measure prints tables for people", "[tools][measure]") {
  const Ran ran = run_program("placement-audit", measure({"--ranks", "2", "--format", "text"}));
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.starts_with("2 ranks, a collective's step "));
  CHECK(ran.out.find("\nhost ") != std::string::npos);
  CHECK(ran.out.find("\n0-1 ") != std::string::npos);
  CHECK(ran.out.find("all_gather of 8 B among 2 ranks: ") != std::string::npos);
}

TEST_CASE("a preset prices as the document's own does", "[tools][measure]") {
  std::string own = kMove;
  own.insert(1, R"j("topology":"cluster",)j");
  const Ran by_flag = run_program("placement-audit", {"plan", "--topology", "cluster"}, kMove);
  CHECK(by_flag.exit_code == 0);
  CHECK(by_flag.out == run_program("placement-audit", {"plan"}, own).out);
}

TEST_CASE("what run executes is planned by its topology", "[tools][measure]") {
  const ScratchFolder folder;
  // Two ranks a block, between which a message takes long.
  const std::string file = folder.file(
      "pairs.json",
      R"j({"step_us":1,"links":[{"ranks":2,"latency_us":0.5,"gb_per_s":100},{"latency_us":10,"gb_per_s":1}]})j");
  const std::string program =
      R"j({"mesh":{"shape":[2,2],"axes":["dp","tp"]},"inputs":{"x":{"shape":[2,4],"dtype":"F32",)j"
      R"j("placements":["S(0)","S(1)"],"values":[1,2,3,4,5,6,7,8]}},)j"
      R"j("program":[{"redistribute":"x","to":["R","R"],"out":"y"}]})j";
  const auto events = [&](const std::vector<std::string>& arguments) {
    const Ran ran = run_program("placement-audit", arguments, program);
    INFO(ran.err);
    REQUIRE(ran.exit_code == 0);
    return count_of(ran.out, "\"kind\":\"collective\"");
  };
  CHECK(events({"run"}) == 1);
  CHECK(events({"run", "--topology", "host"}) == 1);
  CHECK(events({"run", "--topology", file}) == 2);
}

TEST_CASE("tessera-train refuses a topology that there is not", "[tools][measure]") {
  const Ran ran = run_program("tessera-train",
                              {"--config", "/nowhere.json", "--data", "x", "--topology", "dgx"});
  CHECK(ran.exit_code == 3);
  CHECK(ran.err.find("--topology topology \"dgx\" is unknown; there are host, node8 and cluster, "
                     "and no file of that name") != std::string::npos);
}

#ifdef TSR_MPIEXEC
TEST_CASE("measure runs on the processes of mpirun, and one of them writes",
          "[tools][measure][mpi]") {
  const ScratchFolder folder;
  const std::string file = folder / "topology.json";
  const Ran ran = run_on_mpi(2, "placement-audit", measure({"--output", file}));
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(validate(topology_in(read_whole_file(file))).ok());
}
#endif

}  // namespace tessera::testing
