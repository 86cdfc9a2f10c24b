// tessera-train --save and --load as a user runs them: resumed, on another mesh, killed.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/load.h"
#include "io/json.h"
#include "testing/program.h"
#include "tests/support/paths.h"
#include "tests/support/small_disk.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

std::string parity(const std::string& name) {
  std::string path = test_data();
  path += "/parity/softmax/";
  path += name;
  return path;
}

std::string config_file(const ScratchFolder& folder) {
  const Json expected = value_or_throw(parse_json(read_whole_file(parity("expected.json")), "e"));
  return folder.file("config.json", expected.find("config")->to_string());
}

using Arguments = std::vector<std::string>;

Arguments run_of(const ScratchFolder& folder, const Arguments& more) {
  Arguments all = {"--config", config_file(folder), "--data", parity("tokens.safetensors")};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// The "loss" texts of a log's lines.
std::vector<std::string> losses_of(const std::string& path) {
  std::vector<std::string> losses;
  const std::string text = read_whole_file(path);
  for (std::size_t at = 0; (at = text.find("\"loss\":", at)) != std::string::npos; ++at) {
    losses.push_back(text.substr(at, text.find(',', at) - at));
  }
  return losses;
}

/// The step of the checkpoint in a folder, all of whose bytes were checked; −1 where it has none.
std::int64_t saved_step(const std::string& path) {
  const auto files = open_folder(path, MissingFolder::kError);
  if (!files.ok()) return -1;
  const StatusOr<Manifest> manifest = read_manifest(**files);
  if (!manifest.ok()) return -1;
  return *manifest->values.find("step")->if_integer();
}

/// Starts the program, and kills it so long after `file` is there (or 30 seconds).
void run_and_kill(const Arguments& arguments, const std::string& file,
                  std::chrono::milliseconds after) {
  Arguments words = {built() + "/tessera-train"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  for (int wait = 0; wait < 30'000 && !std::filesystem::exists(file); ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
}

}  // namespace

TEST_CASE("saves that --keep keeps are listed, verified and gone on from", "[tools][checkpoint]") {
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt";
  const auto run = [&](const Arguments& more) {
    Arguments all = run_of(folder, {"--ranks", "2", "--parallel", R"({"dp_shard":2})"});
    all.insert(all.end(), more.begin(), more.end());
    return run_program("tessera-train", all);
  };
  const Ran saved = run({"--steps", "4", "--save", ckpt, "--save-every", "1", "--keep", "3",
                         "--verify", "--log", folder / "whole.jsonl"});
  CAPTURE(saved.err);
  REQUIRE(saved.exit_code == 0);
  const auto audit = [&](Arguments words) {
    words.insert(words.begin(), "ckpt");
    return run_program("placement-audit", words);
  };
  CHECK_THAT(audit({"ls", ckpt, "--format", "text"}).out,
             Catch::Contains("\n  generations stored: 4, 3, 2\n"));
  CHECK_THAT(audit({"ls", ckpt}).out, Catch::Contains("\"stored\":[4,3,2]"));
  CHECK_THAT(audit({"ls", ckpt, "--generation", "2"}).out, Catch::Contains("\"step\":2"));
  CHECK(audit({"verify", ckpt, "--generation", "3"}).exit_code == 0);
  const Ran gone = audit({"verify", ckpt, "--generation", "1"});
  CHECK(gone.exit_code == 4);
  CHECK_THAT(gone.err, Catch::Contains("generation 1 is not kept; there are 4, 3, 2"));

  const Ran resumed =
      run({"--steps", "4", "--load", ckpt, "--generation", "3", "--log", folder / "rest.jsonl"});
  CAPTURE(resumed.err);
  CHECK(resumed.exit_code == 0);
  CHECK_THAT(resumed.out, Catch::Contains("3 steps are done"));
  CHECK(losses_of(folder / "rest.jsonl") ==
        std::vector<std::string>{losses_of(folder / "whole.jsonl")[3]});

  struct Refused {
    Arguments words;
    std::string text;
    int exit_code;
  };
  for (const Refused& each : {Refused{{"--keep", "2"}, "--keep 2: goes with --save", 2},
                              Refused{{"--verify"}, "--verify: goes with --save", 2},
                              Refused{{"--generation", "2"}, "--generation 2: goes with --load", 2},
                              Refused{{"--save", ckpt, "--keep", "0"}, "--keep", 2},
                              Refused{{"--load", ckpt, "--generation", "9"},
                                      "generation 9 is not kept; there are 4, 3, 2",
                                      4}}) {
    const Ran ran = run(each.words);
    CAPTURE(each.text, ran.err);
    CHECK(ran.exit_code == each.exit_code);
    CHECK_THAT(ran.err, Catch::Contains(each.text));
  }
}

TEST_CASE("tessera-train goes on from a checkpoint, bit for bit", "[tools][checkpoint]") {
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt";
  const Arguments mesh = {"--ranks", "2", "--parallel", R"({"dp_shard":2})"};
  const auto run = [&](const Arguments& more) {
    Arguments all = run_of(folder, mesh);
    all.insert(all.end(), more.begin(), more.end());
    const Ran ran = run_program("tessera-train", all);
    CAPTURE(ran.err);
    REQUIRE(ran.exit_code == 0);
    return ran.out;
  };
  const std::string init = parity("init.safetensors");
  run({"--init", init, "--steps", "4", "--log", folder / "whole.jsonl"});
  run({"--init", init, "--steps", "2", "--save", ckpt, "--save-every", "1"});
  CHECK(saved_step(ckpt) == 2);
  const std::string out =
      run({"--load", ckpt, "--save", ckpt, "--steps", "4", "--log", folder / "rest.jsonl"});
  CHECK_THAT(out, Catch::Contains("2 steps are done"));
  CHECK(saved_step(ckpt) == 4);
  const std::vector<std::string> whole = losses_of(folder / "whole.jsonl");
  CHECK(losses_of(folder / "rest.jsonl") == std::vector<std::string>{whole[2], whole[3]});

  const Ran done = run_program("tessera-train", run_of(folder, {"--load", ckpt, "--steps", "4"}));
  CHECK(done.exit_code == 3);
  CHECK_THAT(done.err, Catch::Contains("is of step 4; a run of 4 steps has none left"));
}

TEST_CASE("a run that is killed while it saves leaves a whole checkpoint", "[tools][checkpoint]") {
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt";
  Arguments arguments = run_of(folder, {"--steps", "100000", "--save", ckpt, "--save-every", "1"});
  arguments[3] = test_data() + "/../../LICENSE";  // of which there is no end
  for (const int after_ms : {3, 40}) {
    std::filesystem::remove_all(ckpt);
    run_and_kill(arguments, ckpt + "/manifest.json", std::chrono::milliseconds(after_ms));
    const std::int64_t step = saved_step(ckpt);
    CAPTURE(after_ms, step);
    CHECK(step >= 1);
    const Ran whole = run_program("placement-audit", {"ckpt", "verify", ckpt});
    CHECK(whole.exit_code == 0);
    // The next save takes the folder over.
    const std::string steps = std::to_string(step + 1);
    Arguments next = run_of(folder, {"--load", ckpt, "--steps", steps, "--save", ckpt});
    next[3] = arguments[3];
    const Ran ran = run_program("tessera-train", next);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 0);
    CHECK(saved_step(ckpt) == step + 1);
  }
}

TEST_CASE("a save that the system refuses ends the run and leaves the checkpoint before",
          "[tools][checkpoint]") {
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt";
  const Arguments first = run_of(folder, {"--steps", "1", "--save", ckpt});
  REQUIRE(run_program("tessera-train", first).exit_code == 0);
  // No file may grow beyond 1500 KiB.
  Arguments limited = {"-c", "ulimit -f 1500; exec \"$@\"", "sh", built("/tessera-train")};
  const Arguments second = run_of(folder, {"--load", ckpt, "--steps", "2", "--save", ckpt});
  limited.insert(limited.end(), second.begin(), second.end());
  const Ran ran = run_program("/bin/bash", limited, "", {{"TESSERA_RECORDER_DIR", folder / "r"}});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 4);
  CHECK_THAT(ran.err, Catch::Contains("gen-2/shard-0.safetensors: cannot write: File too large"));
  CHECK(saved_step(ckpt) == 1);
  CHECK_FALSE(std::filesystem::exists(ckpt + "/gen-2"));
}

TEST_CASE("a full disk ends a run of two ranks and leaves the checkpoint before",
          "[tools][checkpoint][R26]") {
  const SmallDisk disk;
  if (!disk.why_not().empty()) {
    skip("the limit of a file's size shows the same: " + disk.why_not());
    return;
  }
  // A model whose checkpoint fits into 1 MB once, but not twice.
  const ScratchFolder folder;
  Json config = Json::object({});
  const Json recorded = value_or_throw(parse_json(read_whole_file(config_file(folder)), "c"));
  const std::map<std::string, std::int64_t> smaller = {
      {"dim", 32}, {"n_layers", 2}, {"moe_hidden_dim", 16}};
  for (const JsonMember& member : *recorded.if_object()) {
    const auto at = smaller.find(member.key);
    config.set(member.key, at == smaller.end() ? member.value : Json(at->second));
  }
  const std::string ckpt = disk / "ckpt";
  const auto run = [&](const Arguments& more) {
    Arguments all = {"--config",   folder.file("small.json", config.to_string()),
                     "--data",     test_data() + "/../../LICENSE",
                     "--ranks",    "2",
                     "--parallel", R"({"dp_shard":2})"};
    all.insert(all.end(), more.begin(), more.end());
    return run_program("tessera-train", all, "", {{"TESSERA_RECORDER_DIR", folder / "r"}});
  };
  REQUIRE(run({"--steps", "1", "--save", ckpt}).exit_code == 0);
  const Ran full = run({"--load", ckpt, "--steps", "2", "--save", ckpt});
  CAPTURE(full.err);
  CHECK(full.exit_code == 4);
  CHECK_THAT(full.err, Catch::Contains("gen-2/shard-") &&
                           Catch::Contains("cannot write: No space left on device"));
  CHECK(saved_step(ckpt) == 1);
  CHECK_FALSE(std::filesystem::exists(ckpt + "/gen-2"));
  CHECK_FALSE(std::filesystem::exists(ckpt + "/.manifest.json.tmp"));
  CHECK(run_program("placement-audit", {"ckpt", "verify", ckpt}).exit_code == 0);
  const Ran again = run({"--load", ckpt, "--steps", "2"});
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.out, Catch::Contains("1 steps are done"));
}

}  // namespace tessera::testing
