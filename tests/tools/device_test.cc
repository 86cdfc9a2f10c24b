// The programs with arrays and kernels on a device, as a user runs them.
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

std::string parity(const std::string& name) { return test_data() + "/parity/softmax/" + name; }
std::vector<std::string> training(const ScratchFolder& folder,
                                  const std::vector<std::string>& more) {
  const Json expected = value_or_throw(parse_json(read_whole_file(parity("expected.json")), "e"));
  const std::string config = folder.file("config.json", expected.find("config")->to_string());
  std::vector<std::string> all = {"--config", config, "--data", parity("tokens.safetensors")};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}
std::vector<double> losses_of(const std::string& log) {
  std::vector<double> losses;
  const std::string text = read_whole_file(log);
  for (std::size_t at = 0; (at = text.find("\"loss\":", at)) != std::string::npos; ++at) {
    losses.push_back(std::strtod(text.c_str() + at + 7, nullptr));
  }
  return losses;
}

}  // namespace

TEST_CASE("tessera-train on emulated devices trains, saves and goes on as on the processor",
          "[tools][device]") {
  const ScratchFolder folder;
  const std::string parallel = R"({"dp_shard":2,"tp":2,"ep":2})";
  const auto run = [&](const std::string& device, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--parallel", parallel, "--ranks", "4",
                                    "--device",   device,   "--log",   folder / device};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("tessera-train", training(folder, all));
  };
  const std::vector<std::string> begin = {"--init", parity("init.safetensors"), "--steps", "2"};
  std::vector<std::string> and_save = begin;
  and_save.insert(and_save.end(), {"--save", folder / "checkpoint"});
  const Ran host = run("cpu", begin), device = run("emulated", and_save);
  REQUIRE(host.exit_code == 0);
  REQUIRE(device.exit_code == 0);
  CHECK(host.out.find("device:") == std::string::npos);
  CHECK(device.out.find("device: emulated:0\n") == 0);
  const std::vector<double> on_host = losses_of(folder / "cpu"),
                            on_device = losses_of(folder / "emulated");
  REQUIRE(on_host.size() == 2);
  REQUIRE(on_device.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::abs(on_host[i] - on_device[i]) < 2e-6);

  const std::vector<std::string> go_on = {"--load", folder / "checkpoint", "--steps", "3"};
  REQUIRE(run("cpu", go_on).exit_code == 0);
  REQUIRE(run("emulated", go_on).exit_code == 0);
  const std::vector<double> next = losses_of(folder / "cpu"),
                            next_on_device = losses_of(folder / "emulated");
  REQUIRE(next.size() == 1);
  REQUIRE(next_on_device.size() == 1);
  CHECK(std::abs(next[0] - next_on_device[0]) < 2e-6);
}

TEST_CASE("tessera-train --capture prints the losses of steps that are not captured",
          "[tools][device][capture]") {
  const ScratchFolder folder;
  const std::string bounded = R"({"dp_shard":2,"ep":2,"rows_bound":1024})";
  const auto run = [&](const std::string& log, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--ranks", "2", "--init", parity("init.safetensors"),
                                    "--steps", "4", "--log",  folder / log};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("tessera-train", training(folder, all));
  };
  REQUIRE(run("each", {"--device", "emulated", "--parallel", bounded}).exit_code == 0);
  REQUIRE(run("captured", {"--device", "emulated", "--parallel", bounded, "--capture"}).exit_code ==
          0);
  const std::vector<double> each = losses_of(folder / "each");
  REQUIRE(each.size() == 4);
  CHECK(losses_of(folder / "captured") == each);
  const Ran exact =
      run("exact", {"--device", "emulated", "--parallel", R"({"dp_shard":2,"ep":2})", "--capture"});
  CAPTURE(exact.err);
  CHECK(exact.exit_code == 3);
  CHECK(exact.err.find("host read moe.dispatch.counts of counts_E") != std::string::npos);
  const Ran host = run("host", {"--capture", "--parallel", bounded});
  CAPTURE(host.err);
  CHECK(host.exit_code == 2);
  CHECK(host.err.find("--capture: goes with --device cuda or emulated") != std::string::npos);
}

TEST_CASE("placement-audit runs programs and proves rows on emulated devices", "[tools][device]") {
  const std::string program = R"j({"mesh":{"shape":[2]},
    "inputs":{"x":{"shape":[4,2],"dtype":"F32","placements":["S(0)"],"values":[1,2,3,4,5,6,7,8]}},
    "program":[{"op":"cumsum","args":["x"],"attrs":{"dim":0},"out":["y"]},
               {"redistribute":"y","to":["R"],"out":"z"}],
    "expect":{"z":{"values":[1,2,4,6,9,12,16,20]}}})j";
  const Ran host = run_program("placement-audit", {"run"}, program);
  CAPTURE(host.err);
  REQUIRE(host.exit_code == 0);
  const Ran device = run_program("placement-audit", {"run", "--device", "emulated"}, program);
  CAPTURE(device.err);
  REQUIRE(device.exit_code == 0);
  CHECK(device.out.find(R"("device":"emulated")") != std::string::npos);
  CHECK(host.out.find("device") == std::string::npos);

  const Ran proof = run_program("placement-audit", {"verify", "--device", "emulated", "--format",
                                                    "text", "matmul", "cumsum"});
  CHECK(proof.exit_code == 0);
  CHECK(proof.out.find(" rows proven, 0 failed on the device: emulated\n") != std::string::npos);
}

TEST_CASE("a device that a program has not is refused before anything starts", "[tools][device]") {
  const ScratchFolder folder;
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"--steps", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = run_program("tessera-train", training(folder, all));
    return std::to_string(ran.exit_code) + " " + ran.out + ran.err;
  };
  CHECK(refusal({"--device", "cuda"}) ==
        "4 tessera-train: device cuda: these programs were built without it; docs/cuda.md says "
        "what runs where\n");
  CHECK(refusal({"--device", "gpu\033[1m"}) ==
        "2 tessera-train: --device \"gpu\\u001b[1m\": cpu, cuda and emulated are allowed\n");
  for (const std::string planted : {"", "1", "8:1", "0:0", "0:1x", "\033"}) {
    const Ran ran = run_program("tessera-train", training(folder, {"--device", "emulated"}), "",
                                {{"TESSERA_EMULATED_FAULT", planted}});
    CAPTURE(planted, ran.err);
    CHECK(ran.exit_code == 3);
    CHECK(ran.err.find("TESSERA_EMULATED_FAULT \"") != std::string::npos);
    CHECK(ran.err.find(": DEVICE:NUMBER is expected, a device below 8 and ") != std::string::npos);
    CHECK(ran.err.find('\033') == std::string::npos);
  }
  CHECK(run_program("placement-audit", {"verify", "--device", "cuda", "add"}).exit_code == 4);
  CHECK(run_program("placement-audit", {"run", "--device", "gpu"}, "{}").exit_code == 2);
}

TEST_CASE("tessera-train alone says where the program with emulated devices is missed",
          "[tools][device]") {
  const ScratchFolder folder;
  const std::string alone = folder / "tessera-train";
  std::filesystem::copy_file(built("/tessera-train"), alone);
  const Ran ran = run_program(alone, training(folder, {"--device", "emulated"}));
  CHECK(ran.exit_code == 4);
  CHECK(ran.out.empty());
  CHECK(ran.err == "tessera-train: --device emulated: is in a program of its own, \"" + alone +
                       "-emulated\", which cannot be started: No such file or directory; "
                       "scripts/build release tessera-train-emulated builds it\n");
}

}  // namespace tessera::testing
