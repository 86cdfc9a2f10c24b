// tessera-train as a user runs it: what it prints and logs, and how bad input ends.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

std::string parity(const std::string& name) {
  std::string path = test_data();
  path += "/parity/softmax/";
  path += name;
  return path;
}

/// The softmax parity model's config, `from` replaced by `to`.
std::string config_with(const ScratchFolder& folder, const std::string& from = "",
                        const std::string& to = "") {
  const Json expected = value_or_throw(parse_json(read_whole_file(parity("expected.json")), "e"));
  std::string text = expected.find("config")->to_string();
  if (!from.empty()) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
  }
  return folder.file("config.json", text);
}

std::vector<std::string> good_arguments(const ScratchFolder& folder) {
  return {"--config", config_with(folder),        "--data",  parity("tokens.safetensors"),
          "--init",   parity("init.safetensors"), "--steps", "2"};
}

/// Runs with the good arguments and `more`; expects `exit_code`, an error that holds every one of
/// `parts`, and nothing on standard output.
void expect_refusal(const std::vector<std::string>& more, int exit_code,
                    const std::vector<std::string>& parts) {
  const ScratchFolder folder;
  std::vector<std::string> arguments = good_arguments(folder);
  // An option given again replaces the good one.
  for (std::size_t i = 0; i + 1 < more.size(); i += 2) {
    for (std::size_t j = 0; j + 1 < arguments.size(); j += 2) {
      if (arguments[j] == more[i]) {
        arguments.erase(arguments.begin() + static_cast<std::ptrdiff_t>(j),
                        arguments.begin() + static_cast<std::ptrdiff_t>(j) + 2);
        break;
      }
    }
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  const std::string log = folder / "steps.jsonl";
  arguments.insert(arguments.end(), {"--log", log});
  const Ran ran = run_program("tessera-train", arguments);
  CAPTURE(more, ran.err);
  CHECK(ran.exit_code == exit_code);
  CHECK(ran.out.empty());
  CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  for (const std::string& part : parts) CHECK_THAT(ran.err, Catch::Contains(part));
  CHECK(read_whole_file(log).empty());
}

}  // namespace

TEST_CASE("tessera-train trains on four ranks, logs a line a step and shows what moved",
          "[tools][train]") {
  const ScratchFolder folder;
  std::vector<std::string> arguments = good_arguments(folder);
  const std::string log = folder / "steps.jsonl";
  arguments.insert(arguments.end(),
                   {"--ranks", "4", "--parallel", R"({"dp_shard":2,"tp":2,"ep":2})", "--log", log});
  const Ran ran = run_program("tessera-train", arguments);
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.err.empty());
  CHECK_THAT(ran.out, Catch::Contains("232480 parameters in 41 tensors"));
  CHECK_THAT(ran.out, Catch::Contains("{dp_shard: 2, tp: 2}"));
  CHECK_THAT(ran.out, Catch::Contains("loss 6.0783"));
  CHECK_THAT(ran.out, Catch::Contains("What moved"));
  CHECK_THAT(ran.out, Catch::Contains("reduce_scatter   dp_shard"));
  CHECK_THAT(ran.out, Catch::Contains("layers.2.moe.router.gate.weight [8, 64]"));
  CHECK(ran.out.find("implicit") == std::string::npos);

  const std::string lines = read_whole_file(log);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);
  const Json first = value_or_throw(parse_json(lines.substr(0, lines.find('\n')), "log"));
  for (const char* key :
       {"step", "loss", "grad_norm", "lr", "tokens_per_expert", "tokens_per_second", "bytes"}) {
    CAPTURE(key);
    CHECK(first.find(key) != nullptr);
  }
  CHECK(*first.find("loss")->if_number() == Approx(6.07833194732666).epsilon(1e-6));
}

TEST_CASE("tessera-train trains pipeline stages, and prints their schedule", "[tools][train]") {
  const ScratchFolder folder;
  std::vector<std::string> arguments = good_arguments(folder);
  const std::string log = folder / "steps.jsonl";
  arguments.insert(arguments.end(),
                   {"--ranks", "2", "--parallel", R"({"pp":2,"pp_microbatches":2})"});
  std::vector<std::string> shown = arguments;
  shown.push_back("--show-schedule");
  const Ran schedule = run_program("tessera-train", shown);
  CHECK(schedule.exit_code == 0);
  CHECK_THAT(schedule.out, Catch::Contains("  rank  0  F0 F1    B0    B1\n"));
  CHECK_THAT(schedule.out, Catch::Contains("  rank  1     F0 B0 F1 B1\n"));

  arguments.insert(arguments.end(), {"--log", log});
  const Ran ran = run_program("tessera-train", arguments);
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.err.empty());
  CHECK_THAT(ran.out, Catch::Contains("232480 parameters in 41 tensors"));
  CHECK_THAT(ran.out, Catch::Contains("pipeline: 2 stages on 2 blocks of ranks, 2 micro-batches"));
  const std::string lines = read_whole_file(log);
  const Json first = value_or_throw(parse_json(lines.substr(0, lines.find('\n')), "log"));
  CHECK(*first.find("loss")->if_number() == Approx(6.07833194732666).epsilon(1e-6));
  CHECK(first.find("tokens_per_expert")->if_array()->size() == 2);
}

TEST_CASE("bad flags end in one line and the right exit code", "[tools][train]") {
  expect_refusal({"--backend", "nccl"}, 2,
                 {"--backend nccl goes with --device cuda, or emulated", "not with --device cpu"});
  expect_refusal({"--reduce", "native"}, 2, {"--reduce native goes with --backend nccl"});
  expect_refusal({"--reduce", "tree"}, 2, {"\"tree\" is unknown", "ordered and native"});
  expect_refusal({"--exchange", "windows"}, 2,
                 {"--exchange windows goes with --backend nccl, not with --backend threads"});
  expect_refusal({"--backend", "smoke"}, 2, {"\"smoke\"", "threads"});
  expect_refusal({"--save-every", "2"}, 2, {"--save-every 2: goes with --save"});
  expect_refusal({"--load", "here"}, 2, {"--load and --init"});
  expect_refusal({"--save", "no/such/folder"}, 4, {"--save no/such/folder: cannot open"});
  expect_refusal({"--dtype", "F16"}, 2, {"F16", "F32"});
  expect_refusal({"--dtype", "I64"}, 2, {"--dtype \"I64\"", "BF16"});
  expect_refusal({"--ranks", "257"}, 2, {"--ranks 257: 1 to 256 are allowed"});
  expect_refusal({"--colour", "red"}, 2, {"--colour"});
}

TEST_CASE("numbers of flags are refused as they were written, none narrowed", "[tools][train]") {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--ranks", "0"},
      {"--ranks", "two"},
      {"--ranks", "65537"},
      {"--ranks", "2.5"},
      {"--threads", "-1"},
      {"--threads", "100000"},
      {"--threads", "4294967297"},
      {"--seed", "-1"},
      {"--seed", "18446744073709551616"},

      {"--seed", "0x10"},
      {"--timeout", "0"},
      {"--timeout", "-1"},
      {"--timeout", "99999999999"},
      {"--timeout", "forever"},
      {"--save-every", "-1"},
      {"--save-every", " 1"}};
  for (const auto& [flag, value] : wrong) {
    expect_refusal({flag + "=" + value}, 2, {flag + ": \"" + value + "\"", "are allowed"});
  }
}

TEST_CASE("a run whose checkpoint could not be saved is refused before it trains",
          "[tools][train][checkpoint]") {
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt", log = folder / "steps.jsonl";
  std::vector<std::string> arguments = good_arguments(folder);
  arguments.insert(arguments.end(), {"--save", ckpt, "--log", log});
  const auto refused = [&](int exit_code, const std::string& part) {
    const Ran ran = run_program("tessera-train", arguments);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == exit_code);
    CHECK_THAT(ran.err, Catch::Contains(part));
    CHECK(read_whole_file(log).empty());
    CHECK_FALSE(std::filesystem::exists(ckpt + "/gen-1"));
  };
  const std::string last = ckpt + "/gen-999999999999999999";
  std::filesystem::create_directories(last);
  refused(3, "gen-999999999999999999: no number is left");
  std::filesystem::remove(last);
  std::ofstream(ckpt + "/manifest.json") << "{}";
  refused(3, "manifest.json");
  std::filesystem::remove(ckpt + "/manifest.json");
  const int held = ::open((ckpt + "/.lock").c_str(), O_RDWR | O_CREAT, 0666);
  REQUIRE(::flock(held, LOCK_EX | LOCK_NB) == 0);
  refused(4, "another save is under way in this folder");
  ::close(held);
}

TEST_CASE("a mesh that does not multiply out is refused before any rank starts",
          "[tools][train][C56]") {
  expect_refusal({"--ranks", "4", "--parallel", R"({"dp_shard":2})"}, 3,
                 {"is 2 ranks, but there are 4"});
  expect_refusal({"--ranks", "4", "--parallel", R"({"dp_shard":4,"ep":3})"}, 3,
                 {"ep 3 x etp 1 does not divide"});
  expect_refusal({"--ranks", "4", "--parallel", R"({"pp":4})"}, 3,
                 {"are 4 stages, but the model has 3 layers"});
  expect_refusal({"--ranks", "2", "--parallel", R"({"pp":2,"pp_schedule":"gpipe"})"}, 3,
                 {"pp_schedule", "\"gpipe\"", "interleaved_1f1b"});
  expect_refusal({"--ranks", "2", "--parallel", R"({"axis":2})"}, 3, {"axis", "dp_shard"});
  expect_refusal({"--ranks", "2", "--parallel", "{\"tp\":2"}, 3, {"--parallel"});
  expect_refusal({"--ranks", "8", "--parallel", R"({"tp":8})"}, 3,
                 {"n_heads 4 is not a multiple of tp 8"});
}

TEST_CASE("bad files are refused and nothing is half-written", "[tools][train]") {
  expect_refusal({"--config", "/nowhere/config.json"}, 4, {"/nowhere/config.json"});
  expect_refusal({"--data", "/nowhere/text.txt"}, 4, {"/nowhere/text.txt"});
  expect_refusal({"--init", "/nowhere/init.safetensors"}, 4, {"/nowhere/init.safetensors"});
  expect_refusal({"--init", parity("tokens.safetensors")}, 3, {"tok_embeddings.weight is missing"});
  const ScratchFolder folder;
  const std::string weights = read_whole_file(parity("init.safetensors"));
  expect_refusal({"--init", folder.file("cut.safetensors", weights.substr(0, weights.size() - 1))},
                 3, {"cut.safetensors"});
  expect_refusal({"--data", folder.file("short.txt", "too short")}, 3,
                 {"the corpus has 9 bytes", "needs 520"});
  expect_refusal({"--config", config_with(folder, "\"seq\":64", "\"sequence\":64")}, 3,
                 {"sequence"});
  expect_refusal({"--config", config_with(folder, "\"vocab\":256", "\"vocab\":64")}, 3,
                 {"the vocabulary allows 0 to 63"});
}

}  // namespace tessera::testing
