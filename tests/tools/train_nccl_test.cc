// tessera-train on processes over NCCL emulated, in the environment that torchrun makes: the losses
// of threads, what all say of a rank that dies, stays away or does not fit, and jobs that are
// started again.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/support/paths.h"
#include "tests/support/patience.h"
#include "tests/tools/program.h"

namespace tessera::testing {
namespace {

using Variables = std::map<std::string, std::string>;

const std::string kMesh = R"({"dp_shard":2,"tp":2,"ep":2})";
const std::string kPeerMesh = R"({"dp_shard":2,"tp":2,"ep":4,"dispatcher":"peer"})";
const std::string kAnyMesh = R"({"dp_shard":-1})";

std::string parity(const std::string& file) { return test_data("/parity/softmax/") + file; }

std::vector<std::string> arguments_with(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "--config",  test_data("/../../configs/parity_softmax.json"),
      "--data",    parity("tokens.safetensors"),
      "--backend", "nccl",
      "--device",  "emulated"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}
std::vector<std::string> two_steps_with(const std::vector<std::string>& more) {
  std::vector<std::string> all = {"--init", parity("init.safetensors"), "--steps", "2"};
  all.insert(all.end(), more.begin(), more.end());
  return arguments_with(all);
}

/// What torchrun would set on one host; each job of this program has ports of its own.
std::vector<Variables> environments(int num_ranks) {
  static int number = 0;
  const int port = 20'000 + (::getpid() * 7 + ++number) % 700 * 16;
  std::vector<Variables> all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string at = std::to_string(rank), size = std::to_string(num_ranks);
    all.push_back({{"RANK", at},
                   {"WORLD_SIZE", size},
                   {"LOCAL_RANK", at},
                   {"LOCAL_WORLD_SIZE", size},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port)},
                   {"TORCHELASTIC_RUN_ID", std::to_string(::getpid())},
                   {"TORCHELASTIC_RESTART_COUNT", "0"}});
  }
  return all;
}

std::vector<StartedProgram> start(const std::vector<Variables>& environments,
                                  const std::vector<std::string>& arguments) {
  std::vector<StartedProgram> ranks;
  for (const Variables& each : environments) {
    ranks.emplace_back("tessera-train", arguments, "", each);
  }
  return ranks;
}
std::vector<Ran> finish(std::vector<StartedProgram> ranks) {
  std::vector<Ran> ran;
  for (StartedProgram& rank : ranks) ran.push_back(rank.finish());
  return ran;
}

/// Of the lines from `first` on, what does not depend on the clock.
std::string losses_of(const std::string& path, std::size_t first = 0) {
  std::string losses;
  const std::string text = read_whole_file(path);
  std::size_t line = 0;
  for (std::size_t at = text.find("\"loss\""); at != std::string::npos;
       at = text.find("\"loss\"", at + 1), ++line) {
    if (line >= first) losses += text.substr(at, text.find("\"lr\"", at) - at) + "\n";
  }
  return losses;
}

void wait_for_lines(const std::string& path, std::size_t count) {
  const auto until = std::chrono::steady_clock::now() + 8 * kSoon;
  while (count_of(read_whole_file(path), "\n") < count) {
    if (std::chrono::steady_clock::now() > until) FAIL("no " << count << " lines in " << path);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Every rank ends with this code and these words, the same on each.
void check_said_by_all(const std::vector<Ran>& ranks, const std::string& words, int exit_code = 4) {
  for (const Ran& ran : ranks) {
    CAPTURE(words, ran.err);
    CHECK(ran.exit_code == exit_code);
    CHECK(count_of(ran.err, words) == 1);
    CHECK(count_of(ran.err, "tessera-train: ") == 1);
  }
}

}  // namespace

TEST_CASE("processes over NCCL train with the losses of threads, bit for bit",
          "[tools][train][nccl]") {
  const auto [num_ranks, reduce, exchange] = GENERATE(
      table<int, std::string, std::string>({{2, "native", "messages"}, {4, "ordered", "windows"}}));
  CAPTURE(num_ranks, reduce, exchange);
  const ScratchFolder folder;
  const std::string mesh = num_ranks == 4 ? kMesh : R"({"tp":2})";
  const auto with_log = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--parallel", mesh, "--reduce", reduce, "--log", folder / name});
    return two_steps_with(more);
  };
  const Ran threads =
      run_program("tessera-train", with_log("threads", {"--ranks", std::to_string(num_ranks)}));
  REQUIRE(threads.exit_code == 0);
  const auto ranks = finish(
      start(environments(num_ranks), with_log("processes", {"--checked", "--exchange", exchange})));
  for (const Ran& ran : ranks) {
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 0);
    CHECK(ran.err.empty());
    CHECK(ran.out.empty() == (&ran != &ranks.front()));
  }
  CHECK(losses_of(folder / "processes") == losses_of(folder / "threads"));
  CHECK(!losses_of(folder / "threads").empty());
}

TEST_CASE("rows that go straight to peers' memory over NCCL train with the losses of an all-to-all",
          "[tools][train][nccl][dispatch]") {
  const ScratchFolder folder;
  const auto with = [&](const std::string& dispatcher, const std::string& name,
                        std::vector<std::string> more) {
    more.insert(more.end(),
                {"--parallel", R"({"dp_shard":2,"tp":2,"ep":4,"dispatcher":")" + dispatcher + "\"}",
                 "--log", folder / name});
    return two_steps_with(more);
  };
  const std::vector<std::string> as_threads = {"--ranks", "4"};
  REQUIRE(run_program("tessera-train", with("all_to_all", "packed", as_threads)).exit_code == 0);
  const Ran threads = run_program("tessera-train", with("peer", "threads", as_threads));
  CAPTURE(threads.err);
  CHECK(threads.exit_code == 0);
  for (const Ran& ran : finish(start(environments(4), with("peer", "processes", {"--checked"})))) {
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 0);
  }
  CHECK(!losses_of(folder / "packed").empty());
  CHECK(losses_of(folder / "threads") == losses_of(folder / "packed"));
  CHECK(losses_of(folder / "processes") == losses_of(folder / "packed"));
}

TEST_CASE("an NCCL whose windows kernels do not reach is refused by its version",
          "[tools][train][nccl][dispatch][errors]") {
  std::vector<Variables> old = environments(2);
  for (Variables& each : old) each["TESSERA_EMULATED_NCCL_VERSION"] = "22703";
  const auto ranks = finish(
      start(old, two_steps_with({"--parallel", R"({"dp_shard":2,"ep":2,"dispatcher":"peer"})"})));
  std::string said;
  for (const Ran& ran : ranks) {
    CHECK(ran.exit_code == 3);
    said += ran.err;
  }
  CAPTURE(said);
  CHECK(count_of(said,
                 "which this backend does not reach (NCCL 2.27.3 is there, windows that kernels "
                 "reach need 2.28.3 or later); allowed: the other dispatchers") >= 1);
}

TEST_CASE("a killed process is named by all others, and its records stay",
          "[tools][train][nccl][faults]") {
  // By messages; and while rows and boxes go through windows, which outlive their process.
  const auto [victim, mesh, exchange] = GENERATE(table<std::size_t, std::string, std::string>(
      {{0, kMesh, "messages"}, {3, kPeerMesh, "windows"}, {0, kPeerMesh, "windows"}}));
  const ScratchFolder folder;
  auto ranks = start(environments(4),
                     arguments_with({"--steps", "10", "--parallel", mesh, "--exchange", exchange,
                                     "--log", folder / "log", "--recorder", folder / "records"}));
  wait_for_lines(folder / "log", 1);
  ranks[victim].signal(SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  std::vector<Ran> ran = finish(std::move(ranks));
  CHECK(seconds_since(killed) < kSoonSeconds);
  CHECK(ran[victim].exit_code == 128 + SIGKILL);
  ran.erase(ran.begin() + static_cast<std::ptrdiff_t>(victim));
  check_said_by_all(ran, "tessera-train: rank " + std::to_string(victim) + " died in ");
  check_said_by_all(ran, "flight records: " + (folder / "records"));
  const Ran audit = run_program("placement-audit", {"recorder", folder / "records"});
  CHECK(audit.exit_code == 1);
  CHECK_THAT(audit.out, Catch::Contains("rank " + std::to_string(victim)));
}

TEST_CASE("processes over NCCL train on captured steps, and name one that is killed",
          "[tools][train][nccl][capture][faults]") {
  const std::string mesh = R"({"dp_shard":2,"ep":2,"rows_bound":1024})";
  const ScratchFolder folder;
  const auto with_log = [&](const std::string& log, std::vector<std::string> more) {
    more.insert(more.end(), {"--parallel", mesh, "--log", folder / log});
    return arguments_with(more);
  };
  SECTION("losses") {
    const auto four_steps = [&](const std::string& log, std::vector<std::string> more) {
      more.insert(more.end(), {"--init", parity("init.safetensors"), "--steps", "4"});
      return with_log(log, more);
    };
    REQUIRE(run_program("tessera-train", four_steps("threads", {"--ranks", "2"})).exit_code == 0);
    for (const Ran& ran : finish(start(environments(2), four_steps("captured", {"--capture"})))) {
      CAPTURE(ran.err);
      CHECK(ran.exit_code == 0);
    }
    CHECK(losses_of(folder / "captured") == losses_of(folder / "threads"));
    CHECK(!losses_of(folder / "threads").empty());
  }
  SECTION("a process that is killed") {
    auto ranks = start(environments(2), with_log("log", {"--steps", "10", "--capture"}));
    wait_for_lines(folder / "log", 3);
    ranks[1].signal(SIGKILL);
    const auto killed = std::chrono::steady_clock::now();
    const std::vector<Ran> ran = finish(std::move(ranks));
    CHECK(seconds_since(killed) < kSoonSeconds);
    check_said_by_all({ran[0]}, "tessera-train: rank 1 died");
  }
}

TEST_CASE("a kernel's fault ends all ranks, and no value that was not summed is shown",
          "[tools][train][nccl][faults]") {
  const std::string number = GENERATE("40", "200", "300", "900");
  CAPTURE(number);
  const ScratchFolder folder;
  const auto arguments = [&](const std::string& log) {
    return arguments_with({"--init", parity("init.safetensors"), "--steps", "3", "--ranks", "2",
                           "--parallel", R"({"dp_shard":2})", "--log", folder / log});
  };
  const Ran whole = run_program("tessera-train", arguments("whole"));
  REQUIRE(whole.exit_code == 0);
  const Ran ran = run_program("tessera-train", arguments("log"), "",
                              {{"TESSERA_EMULATED_FAULT", "1:" + number}});
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 4);
  CHECK(count_of(ran.err, "tessera-train: rank 1: emulated:1: ") == 1);
  CHECK(count_of(ran.err, "a kernel ended by a fault (") == 1);
  CHECK(losses_of(folder / "whole").starts_with(losses_of(folder / "log")));
}

TEST_CASE("a stopped process is named at the timeout", "[tools][train][nccl][faults]") {
  const ScratchFolder folder;
  auto ranks = start(environments(2), arguments_with({"--steps", "10", "--parallel", R"({"tp":2})",
                                                      "--log", folder / "log", "--timeout", "15"}));
  wait_for_lines(folder / "log", 1);
  ranks[1].signal(SIGSTOP);
  const Ran first = ranks[0].finish();
  CAPTURE(first.err);
  CHECK(first.exit_code == 4);
  CHECK_THAT(first.err, Catch::Contains("timed out ") &&
                            Catch::Contains("no answer (stopped or unreachable): rank 1"));
}

TEST_CASE("a rank that never comes is named with those that came", "[tools][train][nccl][launch]") {
  auto all = environments(4);
  const auto began = std::chrono::steady_clock::now();
  SECTION("another than rank 0") {
    all.erase(all.begin() + 2);
    check_said_by_all(finish(start(all, two_steps_with({"--parallel", kMesh, "--timeout", "2"}))),
                      " within 2 s: came: 0, 1, 3; did not come: 2\n");
  }
  SECTION("rank 0") {
    all.erase(all.begin());
    check_said_by_all(finish(start(all, two_steps_with({"--parallel", kMesh, "--timeout", "2"}))),
                      " has not found rank 0 at MASTER_ADDR 127.0.0.1, ports ");
  }
  CHECK(seconds_since(began) < 2 * kSoonSeconds);
}

TEST_CASE("processes that are not of one job are told how they differ",
          "[tools][train][nccl][launch]") {
  auto all = environments(3);
  const auto run = [&] {
    return finish(start(all, two_steps_with({"--parallel", kAnyMesh, "--timeout", "3"})));
  };
  SECTION("the number of ranks") {
    all[1]["WORLD_SIZE"] = all[1]["LOCAL_WORLD_SIZE"] = "2";
    check_said_by_all(run(), "WORLD_SIZE differs: 3 at rank 0 (process ");
  }
  SECTION("two with one rank") {
    all[2]["RANK"] = "1";
    check_said_by_all(run(), "RANK 1 came twice: process ");
  }
  SECTION("two with rank 0") {
    all[2]["RANK"] = "0";
    check_said_by_all(run(), "RANK 0 came twice: process ");
  }
  SECTION("NCCL") {
    all[2]["TESSERA_EMULATED_NCCL_VERSION"] = "22703";
    check_said_by_all(run(), "NCCL version differs: 2.28.9 at rank 0 (process ");
  }
  SECTION("the restart") {
    all[2]["TORCHELASTIC_RESTART_COUNT"] = "1";
    const std::vector<Ran> ranks = run();
    check_said_by_all({ranks[0], ranks[1]}, "came: 0, 1; did not come: 2\n");
    check_said_by_all({ranks[2]}, "is no rank of this job and this restart of it\n");
  }
  SECTION("a host that nobody knows") {
    for (Variables& each : all) each["MASTER_ADDR"] = "no.such.host.invalid";
    check_said_by_all(run(),
                      "MASTER_ADDR \"no.such.host.invalid\" is no host that this one knows: ");
  }
}

TEST_CASE("two processes on one card are refused with what to do", "[tools][train][nccl][launch]") {
  auto all = environments(2);
  all[1]["LOCAL_RANK"] = "0";
  const auto ranks = finish(start(all, two_steps_with({"--parallel", R"({"tp":2})"})));
  CHECK_THAT(ranks[0].err, Catch::Contains("Duplicate GPU detected") &&
                               Catch::Contains("give each rank its own"));
  for (const Ran& ran : ranks) CHECK(ran.exit_code == 3);
}

TEST_CASE("a launch that does not say enough is a usage error", "[tools][train][nccl][launch]") {
  Variables variables = environments(2)[0];
  const auto refused = [&](const std::string& text) {
    const Ran ran = run_program("tessera-train", two_steps_with({}), "", variables);
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 2);
    CHECK_THAT(ran.err, Catch::Contains(text));
  };
  SECTION("missing") {
    variables["MASTER_ADDR"] = "";
    refused("the environment has RANK but no MASTER_ADDR; a rank needs RANK, WORLD_SIZE, ");
  }
  SECTION("malformed") {
    variables["LOCAL_RANK"] = "first";
    refused("the environment's LOCAL_RANK is \"first\"; whole numbers from 0 to 1 are allowed");
  }
  SECTION("--ranks") {
    const Ran ran = run_program("tessera-train", two_steps_with({"--ranks", "3"}), "", variables);
    CHECK(ran.exit_code == 2);
    CHECK_THAT(ran.err, Catch::Contains("--ranks 3, but torchrun has started 2 processes"));
  }
}

TEST_CASE("a job that is started again goes on from its checkpoint",
          "[tools][train][nccl][checkpoint]") {
  const ScratchFolder folder;
  const auto arguments = [&](const std::string& log) {
    return arguments_with({"--steps", "4", "--parallel", kAnyMesh, "--save", folder / "saved",
                           "--save-every", "1", "--resume", "--log", folder / log});
  };
  auto all = environments(4);
  auto ranks = start(all, arguments("log"));
  wait_for_lines(folder / "log", 2);
  ranks[1].signal(SIGKILL);
  finish(std::move(ranks));
  const std::size_t before = count_of(read_whole_file(folder / "log"), "\n");

  const int again = GENERATE(4, 2);
  CAPTURE(again);
  const std::string port = all[0]["MASTER_PORT"];
  all = environments(again);
  for (Variables& each : all) {
    each["MASTER_PORT"] = port;
    each["TORCHELASTIC_RESTART_COUNT"] = "1";
  }
  const std::vector<Ran> ran = finish(start(all, arguments("log")));
  for (const Ran& each : ran) {
    CAPTURE(each.err);
    CHECK(each.exit_code == 0);
  }
  CHECK_THAT(ran[0].out, Catch::Contains("resumed from "));
  const std::string log = read_whole_file(folder / "log");
  CHECK(log.find("\"step\":3") == log.rfind("\"step\":3"));
  CHECK(log.find("\"step\":3") != std::string::npos);
  CAPTURE(before, log);
  if (again == 4) {  // as if it had never ended
    const Ran whole =
        run_program("tessera-train", arguments_with({"--steps", "4", "--parallel", kAnyMesh,
                                                     "--ranks", "4", "--log", folder / "whole"}));
    REQUIRE(whole.exit_code == 0);
    const std::size_t resumed_at = 4 - (count_of(log, "\n") - before);
    CHECK(losses_of(folder / "log", before) == losses_of(folder / "whole", resumed_at));
  }
}

#ifdef TSR_MPIEXEC
TEST_CASE("mpirun's processes meet over NCCL without MPI", "[tools][train][nccl][mpi]") {
  const ScratchFolder folder;
  const auto arguments = [&](const std::string& log, std::vector<std::string> more) {
    more.insert(more.end(), {"--parallel", kMesh, "--log", folder / log});
    return two_steps_with(more);
  };
  REQUIRE(run_program("tessera-train", arguments("threads", {"--ranks", "4"})).exit_code == 0);
  const Ran ran = run_on_mpi(4, "tessera-train", arguments("processes", {}));
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 0);
  CHECK(losses_of(folder / "processes") == losses_of(folder / "threads"));
}
#endif

}  // namespace tessera::testing
