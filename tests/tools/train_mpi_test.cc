// tessera-train on processes of mpirun: the losses of threads, and launches that do not fit.
#include <cmath>
#include <cstdlib>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

#ifdef TSR_MPIEXEC

namespace tessera::testing {
namespace {

std::string parity(const std::string& file) { return test_data("/parity/softmax/") + file; }

/// Two steps of a parity model; `more` comes last.
std::vector<std::string> arguments_with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"--config", test_data("/../../configs/parity_softmax.json"),
                                        "--data",   parity("tokens.safetensors"),
                                        "--init",   parity("init.safetensors"),
                                        "--steps",  "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Lines of a log without what depends on the clock.
std::string losses_of(const std::string& path) {
  std::string losses;
  const std::string text = read_whole_file(path);
  for (std::size_t at = text.find("\"loss\""); at != std::string::npos;
       at = text.find("\"loss\"", at + 1)) {
    losses += text.substr(at, text.find("\"lr\"", at) - at) + "\n";
  }
  return losses;
}

double number_after(const std::string& text, const std::string& key, std::size_t from = 0) {
  const std::size_t at = text.find(key, from);
  REQUIRE(at != std::string::npos);
  return std::strtod(text.c_str() + at + key.size(), nullptr);
}

void expect_refusal(int processes, const std::vector<std::string>& more,
                    const std::vector<std::string>& parts, int exit_code = 3) {
  const Ran ran = run_on_mpi(processes, "tessera-train", arguments_with(more));
  CAPTURE(more, ran.err);
  CHECK(ran.exit_code == exit_code);
  CHECK(ran.out.empty());
  for (const std::string& part : parts) CHECK_THAT(ran.err, Catch::Contains(part));
  // One process speaks for all.
  const std::size_t first = ran.err.find("tessera-train: ");
  REQUIRE(first != std::string::npos);
  CHECK(ran.err.find("tessera-train: ", first + 1) == std::string::npos);
}

}  // namespace

TEST_CASE("processes train with the losses of threads, bit for bit", "[tools][train][mpi]") {
  const ScratchFolder folder;
  const std::string mesh = R"({"dp_shard":2,"tp":2,"ep":2})";
  const std::string threads = folder / "threads.jsonl", processes = folder / "processes.jsonl";
  const Ran on_threads = run_program(
      "tessera-train", arguments_with({"--parallel", mesh, "--ranks", "4", "--log", threads}));
  REQUIRE(on_threads.exit_code == 0);
  const Ran on_mpi = run_on_mpi(
      4, "tessera-train",
      arguments_with({"--parallel", mesh, "--backend", "mpi", "--checked", "--log", processes}));
  CAPTURE(on_mpi.err);
  REQUIRE(on_mpi.exit_code == 0);
  CHECK(losses_of(processes) == losses_of(threads));
  CHECK(!losses_of(threads).empty());
}

TEST_CASE("processes on emulated devices repeat another system's losses",
          "[tools][train][mpi][device]") {
  const ScratchFolder folder;
  const Ran ran = run_on_mpi(
      4, "tessera-train",
      arguments_with({"--parallel", R"({"dp_shard":2,"tp":2,"ep":2})", "--backend", "mpi",
                      "--device", "emulated", "--checked", "--log", folder / "log.jsonl"}),
      {{"TESSERA_MPI_DEVICE_POINTERS", "on"}});
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.find("device: emulated:0\n") == 0);
  const Json recorded =
      value_or_throw(parse_json(read_whole_file(parity("expected.json")), "expected"));
  const Json::Array& steps = *recorded.find("steps")->if_array();
  const std::string log = read_whole_file(folder / "log.jsonl");
  std::size_t line = 0;
  for (std::size_t step = 0; step < 2; ++step, line = log.find('\n', line) + 1) {
    CAPTURE(step, log);
    const double loss = *steps[step].find("loss")->if_number();
    CHECK(std::abs(number_after(log, "\"loss\":", line) - loss) < 2e-6);
  }
}

TEST_CASE("a kernel's fault on one of four processes is a line of each, and the records stay",
          "[tools][train][mpi][device][errors]") {
  const ScratchFolder folder;
  const Ran ran =
      run_on_mpi(4, "tessera-train",
                 arguments_with({"--parallel", R"({"dp_shard":2,"tp":2,"ep":2})", "--backend",
                                 "mpi", "--device", "emulated", "--recorder", folder / "records"}),
                 {{"TESSERA_EMULATED_FAULT", "1:500"}});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 4);
  CHECK(count_of(ran.err, "a kernel ended by a fault (kernel ") == 4);
  CHECK(count_of(ran.err, ", a fault that was planted)") == 4);
  CHECK(count_of(ran.err, "flight records: " + (folder / "records")) == 4);
  const Ran audit = run_program("placement-audit", {"recorder", folder / "records"});
  CHECK(audit.exit_code == 1);
  CHECK_THAT(audit.out, Catch::Contains("a fault that was planted"));
}

TEST_CASE("what four processes save goes on on two, as on threads, bit for bit",
          "[tools][train][checkpoint][mpi]") {
  const ScratchFolder folder;
  const auto same = [&](const std::string& one, const std::string& other) {
    const Ran ran = run_program("placement-audit", {"ckpt", "diff", folder / one, folder / other});
    CAPTURE(one, other, ran.out, ran.err);
    CHECK(ran.exit_code == 0);
  };
  const std::vector<std::string> four = {"--parallel", R"({"dp_shard":2,"tp":2,"ep":2})"};
  const std::vector<std::string> two = {"--parallel", R"({"tp":2,"ep":2})"};
  const auto run = [&](int ranks, const std::vector<std::string>& mesh,
                       const std::vector<std::string>& begin, const std::string& into) {
    std::vector<std::string> arguments = {"--config",
                                          test_data("/../../configs/parity_softmax.json"), "--data",
                                          parity("tokens.safetensors")};
    arguments.insert(arguments.end(), mesh.begin(), mesh.end());
    arguments.insert(arguments.end(), begin.begin(), begin.end());
    std::vector<std::string> on_threads = arguments, on_mpi = arguments;
    on_threads.insert(on_threads.end(),
                      {"--ranks", std::to_string(ranks), "--save", folder / (into + ".threads")});
    on_mpi.insert(on_mpi.end(), {"--backend", "mpi", "--save", folder / (into + ".mpi")});
    for (const Ran& ran :
         {run_program("tessera-train", on_threads), run_on_mpi(ranks, "tessera-train", on_mpi)}) {
      CAPTURE(into, ran.err);
      REQUIRE(ran.exit_code == 0);
    }
    same(into + ".threads", into + ".mpi");
  };
  run(4, four, {"--init", parity("init.safetensors"), "--steps", "1"}, "saved");
  run(2, two, {"--load", folder / "saved.mpi", "--steps", "2"}, "gone_on");
}

TEST_CASE("a launch that does not fit the mesh or the flags is refused by one voice",
          "[tools][train][mpi]") {
  const std::string mesh = R"({"dp_shard":2,"tp":2})";
  expect_refusal(3, {"--backend", "mpi", "--ranks", "4", "--parallel", mesh},
                 {"--ranks 4, but mpirun has started 3 processes", "mpirun -n 4"});
  expect_refusal(3, {"--backend", "mpi", "--parallel", mesh}, {"is 4 ranks, but there are 3"});
  expect_refusal(2, {"--backend", "mpi", "--parallel", R"({"tp":2})", "--log", "/nowhere/x.jsonl"},
                 {"/nowhere/x.jsonl"}, 4);
  expect_refusal(2, {"--backend", "mpi", "--parallel", R"({"tp":2})", "--device", "cuda"},
                 {"rank 0: device cuda: these programs were built without it"}, 4);
}

}  // namespace tessera::testing

#endif
