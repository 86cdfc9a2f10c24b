// tessera-train --plan as a user runs it.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "program/program_json.h"
#include "tests/plan/placed_step.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

struct PlanFiles {
  ScratchFolder folder;
  std::string config, plan;
  /// Of the softmax model, on 4 ranks.
  PlanFiles() {
    config = folder.file("config.json", expected_results("softmax").find("config")->to_string());
    const OpenStep open = value_or_throw(open_step(job_of("softmax").config, DType::kF64));
    plan = folder.file("plan.json", write_program(by_hand(open.program, mesh_of({2, 2}))));
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"--config", config,
                                    "--data",   parity_path("softmax", "tokens.safetensors"),
                                    "--init",   parity_path("softmax", "init.safetensors"),
                                    "--steps",  "2",
                                    "--dtype",  "F64"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> lines;
  const std::string text = read_whole_file(path);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(value_or_throw(parse_json(text.substr(at, end - at), "line")));
    at = end + 1;
  }
  return lines;
}

TEST_CASE("tessera-train --plan logs the losses of its own form", "[plan][tools]") {
  const PlanFiles files;
  const std::string by_plan = files.folder / "plan.jsonl", by_model = files.folder / "model.jsonl";
  const Ran one = run_program("tessera-train", files.arguments({"--log", by_model}));
  CAPTURE(one.err);
  REQUIRE(one.exit_code == 0);
  const Ran ran = run_program(
      "tessera-train", files.arguments({"--plan", files.plan, "--ranks", "4", "--log", by_plan}));
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.starts_with("plan: \"step\", "));
  CHECK_THAT(ran.out, Catch::Contains("all_reduce"));
  const std::vector<Json> got = lines_of(by_plan), wanted = lines_of(by_model);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t step = 0; step < got.size(); ++step) {
    for (const char* key : {"loss", "grad_norm", "lr"}) {
      CAPTURE(step, key);
      CHECK(std::abs(*got[step].find(key)->if_number() - *wanted[step].find(key)->if_number()) <
            1e-9);
    }
    CHECK(got[step].find("tokens_per_expert")->to_string() ==
          wanted[step].find("tokens_per_expert")->to_string());
  }
}

#ifdef TSR_MPIEXEC
TEST_CASE("tessera-train --plan runs on the processes of mpirun", "[plan][tools]") {
  const PlanFiles files;
  const std::string by_threads = files.folder / "threads.jsonl",
                    by_processes = files.folder / "processes.jsonl";
  const Ran threads =
      run_program("tessera-train",
                  files.arguments({"--plan", files.plan, "--ranks", "4", "--log", by_threads}));
  CAPTURE(threads.err);
  REQUIRE(threads.exit_code == 0);
  const Ran processes = run_on_mpi(
      4, "tessera-train",
      files.arguments({"--plan", files.plan, "--backend", "mpi", "--log", by_processes}));
  CAPTURE(processes.err);
  REQUIRE(processes.exit_code == 0);
  const std::vector<Json> got = lines_of(by_processes), wanted = lines_of(by_threads);
  REQUIRE(got.size() == wanted.size());
  for (std::size_t step = 0; step < got.size(); ++step) {
    CHECK(std::abs(*got[step].find("loss")->if_number() - *wanted[step].find("loss")->if_number()) <
          1e-9);
  }
}
#endif

TEST_CASE("a plan of another world, and flags that a plan decides, are refused", "[plan][tools]") {
  const PlanFiles files;
  const Ran two =
      run_program("tessera-train", files.arguments({"--plan", files.plan, "--ranks", "2"}));
  CHECK(two.exit_code == 3);
  CHECK(two.out.empty());
  CHECK(two.err == "tessera-train: --plan " + files.plan +
                       ": it is a plan of 4 ranks, and the run has 2; give --ranks 4, or start as "
                       "many processes\n");
  const Ran saves = run_program(
      "tessera-train",
      files.arguments({"--plan", files.plan, "--ranks", "4", "--save", files.folder / "saved"}));
  CHECK(saves.exit_code == 2);
  CHECK(saves.err ==
        "tessera-train: --plan and --save do not go together: the plan says how the step runs, and "
        "its run is neither captured nor saved\n");
  const Ran other = run_program(
      "tessera-train", files.arguments({"--plan", files.plan, "--ranks", "4", "--dtype", "F32"}));
  CHECK(other.exit_code != 0);
}

TEST_CASE("placement-audit trace --open writes the step that plans are solved from",
          "[plan][tools]") {
  const PlanFiles files;
  const Ran traced = run_program("placement-audit",
                                 {"trace", "--train", files.config, "--open", "--dtype", "F64"});
  CAPTURE(traced.err);
  REQUIRE(traced.exit_code == 0);
  const Program step = value_or_throw(read_program(traced.out, "step", builtin_ops()));
  CHECK(step.ranks == 1);
  CHECK(check_plan(step, job_of("softmax").config, DType::kF64).ok());
  CHECK(traced.out.find("\"region\"") == std::string::npos);
  const Ran cut = run_program("placement-audit", {"trace", "--train", files.config, "--open",
                                                  "--parallel", "{\"tp\":2}", "--ranks", "2"});
  CHECK(cut.exit_code == 3);
  CHECK_THAT(cut.err, Catch::Contains("trace --open: the step is of one rank"));
}

const char* const kThin = R"j({"mesh":{"shape":[4],"axes":["tp"]},"inputs":{
  "a":{"shape":[8,4],"dtype":"F64","placements":["S(1)"],"values":[1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]},
  "b":{"shape":[4,8],"dtype":"F64","placements":["S(0)"],"values":[1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]}},
  "program":[{"op":"matmul","args":["a","b"],"out":["c"]},{"op":"softmax","args":["c"],"attrs":{"dim":1},"out":["d"]},
             {"op":"sum","args":["d"],"out":["l"]},{"backward":"l","grads":["b"]}]})j";

TEST_CASE("placement-audit run --solve prints what moved beside what was predicted",
          "[plan][tools]") {
  const ScratchFolder folder;
  const std::string file = folder.file("thin.json", kThin);
  const Ran ran = run_program("placement-audit", {"run", "--input", file, "--solve"});
  CAPTURE(ran.err);
  REQUIRE(ran.exit_code == 0);
  const Json answer = value_or_throw(parse_json(ran.out, "run"));
  CHECK(answer.find("predicted_bytes")->to_string() == answer.find("executed_bytes")->to_string());
  CHECK(answer.find("results")->find("grad.b") != nullptr);
  const Ran kept = run_program(
      "placement-audit", {"run", "--input", file, "--solve", "--keep-inputs", "--format", "text"});
  REQUIRE(kept.exit_code == 0);
  CHECK_THAT(kept.out, Catch::Contains("\"a\"  [S(1)], input"));
  CHECK(kept.out.find("DIFFERS") == std::string::npos);
  CHECK(kept.out.find("predicted 0 bytes") == std::string::npos);
  const Ran pinned = run_program("placement-audit", {"run", "--input", file, "--solve", "--pin",
                                                     "a=S(0)", "--format", "text"});
  REQUIRE(pinned.exit_code == 0);
  CHECK_THAT(pinned.out, Catch::Contains("\"a\"  [S(0)], input"));
  const Ran limited = run_program("placement-audit", {"run", "--input", file, "--solve",
                                                      "--time-limit", "5", "--format", "text"});
  REQUIRE(limited.exit_code == 0);
  const Ran nobody =
      run_program("placement-audit", {"run", "--input", file, "--solve", "--pin", "q=S(0)"});
  CHECK(nobody.exit_code == 3);
}

/// y = a b, S(1) by S(0); what is expected of it, and of the gradient of its sum.
std::string expecting(const std::string& first) {
  return R"j({"mesh":{"shape":[2],"axes":["tp"]},"inputs":{
    "a":{"shape":[2,2],"dtype":"F64","placements":["S(1)"],"values":[1,2,3,4]},
    "b":{"shape":[2,3],"dtype":"F64","placements":["S(0)"],"values":[1,0,2,0,1,3]}},
    "program":[{"op":"matmul","args":["a","b"],"out":["y"]},{"op":"add","args":["y","y"],"out":["z"]},
      {"op":"sum","args":["z"],"out":["l"]},{"backward":"l","grads":["a"]}],
    "expect":{"z":{"values":[)j" +
         first + R"j(,4,16,6,8,36],"placements":["P(sum)"]},"grad.a":{"values":[6,8,6,8]}}})j";
}

const char* const kNumbers = R"j({"mesh":{"shape":[2],"axes":["tp"]},"inputs":{
    "x":{"shape":[2,4],"dtype":"F64","placements":["R"],"values":[1,2,3,4,5,6,7,8]},
    "w":{"shape":[4,2],"dtype":"F64","placements":["S(0)"],"values":[1,0,1,0,0,1,0,1]}},
  "program":[{"op":"matmul","args":["x","w"],"out":["y"]},{"op":"mul","args":["y",0.5],"out":["z"]},
    {"op":"add","args":["z",1],"out":["u"]},{"op":"sub","args":[1,"u"],"out":["v"]},
    {"op":"mul","args":["v","v"],"out":["q"]},{"op":"sum","args":["q"],"out":["l"]},
    {"backward":"l","grads":["w"]}]})j";

TEST_CASE("placement-audit run --solve takes numbers as operands", "[plan][tools]") {
  const ScratchFolder folder;
  const std::string file = folder.file("numbers.json", kNumbers),
                    plain = folder / "run.safetensors";
  REQUIRE(run_program("placement-audit", {"run", "--input", file, "--save", plain}).exit_code == 0);
  for (const char* const pin : {"w=R", "w=S(0)", "x=S(1)"}) {
    CAPTURE(pin);
    const std::string saved = folder / (std::string(pin) + ".safetensors");
    const Ran ran = run_program("placement-audit", {"run", "--input", file, "--solve", "--pin", pin,
                                                    "--save", saved, "--format", "text"});
    CAPTURE(ran.err, ran.out);
    REQUIRE(ran.exit_code == 0);
    CHECK_THAT(ran.out, Catch::Contains("\"1 (/program/3, operand 0)\"  [R], input\n"));
    CHECK(read_whole_file(saved) == read_whole_file(plain));
  }
  std::string taken = kNumbers;
  taken.replace(taken.find("\"l\"]}"), 3, "\"0.5 (/program/1, operand 1)\"");
  taken.replace(taken.find("{\"backward\":\"l\""), 15,
                "{\"backward\":\"0.5 (/program/1, operand 1)\"");
  const Ran refused = run_program("placement-audit",
                                  {"run", "--input", folder.file("taken.json", taken), "--solve"});
  CHECK(refused.exit_code == 3);
  CHECK_THAT(
      refused.err,
      Catch::Contains("\"0.5 (/program/1, operand 1)\" is a tensor, and a number is called so"));
}

TEST_CASE("placement-audit run --solve checks what is expected, and saves", "[plan][tools]") {
  const ScratchFolder folder;
  const std::string right = folder.file("right.json", expecting("2")),
                    wrong = folder.file("wrong.json", expecting("5")),
                    saved = folder / "solved.safetensors", plain = folder / "run.safetensors";
  const Ran ran =
      run_program("placement-audit", {"run", "--input", right, "--solve", "--save", saved});
  CAPTURE(ran.err, ran.out);
  REQUIRE(ran.exit_code == 0);
  CHECK_THAT(ran.out, Catch::Contains("\"failures\":[]"));
  const Ran unsolved = run_program("placement-audit", {"run", "--input", right, "--save", plain});
  CAPTURE(unsolved.err, unsolved.out);
  REQUIRE(unsolved.exit_code == 0);
  CHECK(read_whole_file(saved) == read_whole_file(plain));
  const std::string never = folder / "never.safetensors";
  const Ran failed = run_program(
      "placement-audit", {"run", "--input", wrong, "--solve", "--save", never, "--format", "text"});
  CHECK(failed.exit_code == 1);
  CHECK_THAT(
      failed.out,
      Catch::Contains("FAILED z: element [0, 0] is 2.0, expected 5.0\n1 as expected, 1 not\n"));
  CHECK(!std::filesystem::exists(never));
}

}  // namespace
}  // namespace tessera::testing
