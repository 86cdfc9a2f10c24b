// tessera-train under signals, as an operator or a job scheduler sends them.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/support/paths.h"
#include "tests/support/patience.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

std::string data(const std::string& name) { return test_data() + "/" + name; }

/// tessera-train on two ranks, with no end, in the background; what it says goes to files.
class EndlessRun {
 public:
  explicit EndlessRun(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {built("/tessera-train"),
                                          "--config",
                                          data("../../configs/parity_softmax.json"),
                                          "--data",
                                          data("../../LICENSE"),
                                          "--steps",
                                          "1000000",
                                          "--ranks",
                                          "2",
                                          "--parallel",
                                          R"({"dp_shard":2})",
                                          "--log",
                                          log()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& each : arguments) argv.push_back(each.data());
    argv.push_back(nullptr);
    const std::string out = folder_ / "out", err = folder_ / "err", temporary = folder_ / "tmp";
    std::filesystem::create_directories(temporary);
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("TMPDIR", temporary.c_str(), 1);
      ::unsetenv("TESSERA_RECORDER_DIR");
      if (std::freopen(out.c_str(), "w", stdout) == nullptr ||
          std::freopen(err.c_str(), "w", stderr) == nullptr) {
        ::_exit(126);
      }
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    CHECK(becomes_true([&] { return steps() >= 2; }));
  }
  EndlessRun(const EndlessRun&) = delete;
  EndlessRun& operator=(const EndlessRun&) = delete;
  ~EndlessRun() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void send(int signal) const { ::kill(pid_, signal); }
  /// The exit code; −1 where it does not end, or ends otherwise.
  int exit_code() {
    int status = 0;
    const bool ended = becomes_true([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; });
    if (!ended) return -1;
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::int64_t steps() const {
    const std::string lines = read_whole_file(log());
    return std::count(lines.begin(), lines.end(), '\n');
  }
  std::string log() const { return folder_ / "steps.jsonl"; }
  std::string out() const { return read_whole_file(folder_ / "out"); }
  std::string err() const { return read_whole_file(folder_ / "err"); }
  /// Names in the folder for temporary files.
  std::vector<std::string> temporary() const {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::directory_iterator(folder_ / "tmp")) {
      names.push_back(each.path().string());
    }
    return names;
  }

  template <class Condition>
  static bool becomes_true(const Condition& is_so) {
    const auto until = std::chrono::steady_clock::now() + 4 * kSoon;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

 private:
  ScratchFolder folder_;
  pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("SIGTERM and SIGINT end a run after its step, saved, with its records kept",
          "[tools][train][signals]") {
  const int signal = GENERATE(SIGTERM, SIGINT);
  const ScratchFolder folder;
  const std::string ckpt = folder / "ckpt";
  EndlessRun run({"--save", ckpt});
  run.send(signal);
  REQUIRE(run.exit_code() == 128 + signal);
  const std::string ended = "ended by signal " + std::to_string(signal) + " after step " +
                            std::to_string(run.steps()) + " of 1000000";
  CHECK_THAT(run.out(), Catch::Contains(ended));
  CHECK_THAT(run.out(), Catch::Contains("What moved"));
  CHECK(run_program("placement-audit", {"ckpt", "verify", ckpt}).exit_code == 0);
  const std::string more = std::to_string(run.steps() + 1);
  const Ran resumed =
      run_program("tessera-train", {"--config", data("../../configs/parity_softmax.json"), "--data",
                                    data("../../LICENSE"), "--load", ckpt, "--steps", more});
  CHECK(resumed.exit_code == 0);
  const std::vector<std::string> left = run.temporary();
  REQUIRE(left.size() == 1);  // the records, and nothing else
  CHECK_THAT(run.err(), Catch::Contains("flight records: " + left[0]));
  CHECK(run_program("placement-audit", {"recorder", left[0]}).exit_code != 3);
}

TEST_CASE("a second signal ends a run at once", "[tools][train][signals]") {
  EndlessRun run;
  run.send(SIGSTOP);  // so that both are there when it goes on
  run.send(SIGTERM);
  run.send(SIGINT);
  run.send(SIGCONT);
  const int code = run.exit_code();
  CHECK((code == 128 + SIGTERM || code == 128 + SIGINT));
  CHECK(run.out().find("ended by signal") == std::string::npos);
}

TEST_CASE("SIGUSR1 shows what every rank does, and the run goes on", "[tools][train][signals]") {
  EndlessRun run;
  run.send(SIGUSR1);
  CHECK(EndlessRun::becomes_true(
      [&] { return run.err().find("flight records: ") != std::string::npos; }));
  const std::string said = run.err();
  for (const char* rank : {"rank 0 ", "rank 1 "}) {
    const std::size_t begin = std::min(said.find(rank), said.size());
    const std::string line = said.substr(begin, said.find('\n', begin) - begin);
    CHECK_THAT(line, Catch::Contains("waits in ") || Catch::Contains("its last call was "));
    CHECK_THAT(line, Catch::Contains(" #"));  // which call, and of what
    CHECK_THAT(line, Catch::Contains(" of "));
  }
  const std::size_t at = said.find("flight records: ") + 16;
  const std::string copy = said.substr(at, said.find('\n', at) - at);
  CHECK(std::filesystem::exists(copy + "/rank_00001.tsrrec"));
  const std::int64_t before = run.steps();
  CHECK(EndlessRun::becomes_true([&] { return run.steps() > before + 2; }));
  run.send(SIGTERM);
  CHECK(run.exit_code() == 128 + SIGTERM);
}

TEST_CASE("a reader of the output that goes away disturbs nothing", "[tools][train][signals]") {
  const ScratchFolder folder;
  const std::string program = built("/tessera-train");
  const std::string command = program + " --config " + data("../../configs/parity_softmax.json") +
                              " --data " + data("../../LICENSE") + " --steps 4 --log " +
                              (folder / "log") + " | head -n 1; echo ${PIPESTATUS[0]}";
  const Ran ran = run_program("/bin/bash", {"-c", command});
  CAPTURE(ran.out);
  CHECK(ran.err.empty());
  CHECK(ran.out.ends_with("\n0\n"));
  const std::string lines = read_whole_file(folder / "log");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 4);
}

}  // namespace tessera::testing
