// A job over two hosts: that it trains as on one, names a rank that is lost on the other, and minds
// nobody who speaks to its control ports without knowing its token.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <random>

#include "runtime/recorder/file.h"
#include "testing/program.h"
#include "tests/mpi/two_hosts.h"
#include "tests/support/paths.h"
#include "tests/support/patience.h"

namespace tessera::testing {
namespace {

constexpr const char* kNoEnd = "1000000";

/// A small model on 2 x 2 ranks.
std::vector<std::string> training(const std::string& num_steps, const std::string& log,
                                  const std::string& backend = "mpi") {
  return {"--config",   test_data("/../../configs/parity_softmax.json"),
          "--data",     test_data("/../../LICENSE"),
          "--steps",    num_steps,
          "--parallel", R"({"dp_shard":2,"tp":2,"ep":2})",
          "--backend",  backend,
          "--device",   backend == "nccl" ? "emulated" : "cpu",
          "--checked",  "--log",
          log};
}

/// Lines of a log up to what depends on the clock.
std::vector<std::string> losses_of(const std::string& path) {
  std::vector<std::string> losses;
  const std::string text = read_whole_file(path);
  for (std::size_t at = text.find("\"loss\""); at != std::string::npos;
       at = text.find("\"loss\"", at + 1)) {
    losses.push_back(text.substr(at, text.find("\"lr\"", at) - at));
  }
  return losses;
}

/// The process of a rank whose command line holds `text`; 0 where there is none.
pid_t process_of(const std::string& rank, const std::string& text) {
  const std::string variable = "OMPI_COMM_WORLD_RANK=" + rank;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string environment = read_whole_file(entry.path() / "environ");
    if (environment.find(variable + '\0') == std::string::npos) continue;
    if (read_whole_file(entry.path() / "cmdline").find(text) == std::string::npos) continue;
    return static_cast<pid_t>(std::stol(name));
  }
  return 0;
}

/// Connections that there were to play again, and those that were not turned away.
struct Attack {
  std::size_t num_heard = 0, num_heeded = 0;
};

/// From host 1: what was heard, played again, and random bytes.
Attack attack(const TwoHosts& hosts, const Wiretap& tap) {
  Attack done;
  if (!hosts.enter(1)) return done;
  std::mt19937_64 random(16);
  for (const HeardSession& session : tap.sessions()) {
    ++done.num_heard;
    if (!is_turned_away(session, session.bytes)) ++done.num_heeded;
    std::string garbage(600, '\xff');  // a length that no frame has, so that nobody waits for it
    for (std::size_t at = 4; at < garbage.size(); ++at) garbage[at] = static_cast<char>(random());
    if (!is_turned_away(session, garbage)) ++done.num_heeded;
  }
  return done;
}

/// A job over both hosts, beside which `meanwhile` runs once it has made a step; then SIGTERM ends
/// it. Its losses.
std::vector<std::string> losses_beside(const TwoHosts& hosts, std::size_t least_steps,
                                       const std::function<void()>& meanwhile) {
  const ScratchFolder folder;
  const std::string log = folder / "log";
  const auto has_steps = [&](std::size_t count) {
    return becomes_true([&] { return losses_of(log).size() >= count; }, 12 * kSoon);
  };
  std::thread other([&] {
    has_steps(1);
    meanwhile();
    has_steps(least_steps);
    const pid_t first = process_of("0", log);
    if (first > 0) ::kill(first, SIGTERM);
  });
  const Ran ran = hosts.train(ProcessTables::kOwn, training(kNoEnd, log));
  other.join();
  CAPTURE(ran.err);
  CHECK(ran.exit_code == 128 + SIGTERM);
  return losses_of(log);
}

/// Four ranks over NCCL, two on each host, in the environment that torchrun makes. NCCL emulated
/// finds those of the other host in `folder`.
std::vector<StartedProgram> start_over_nccl(const TwoHosts& hosts, const ScratchFolder& folder,
                                            const std::vector<std::string>& arguments) {
  std::vector<StartedProgram> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(hosts.start_rank(rank / 2, arguments,
                                     {{"RANK", std::to_string(rank)},
                                      {"WORLD_SIZE", "4"},
                                      {"LOCAL_RANK", std::to_string(rank % 2)},
                                      {"LOCAL_WORLD_SIZE", "2"},
                                      {"MASTER_ADDR", TwoHosts::address_of(0)},
                                      {"MASTER_PORT", "29500"},
                                      {"TESSERA_EMULATED_NCCL_FOLDER", folder / "."}}));
  }
  return ranks;
}

}  // namespace

TEST_CASE("a job over two hosts of one name trains as on one, bit for bit", "[mpi][hosts]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const ScratchFolder folder;
  const Ran one_host = run_on_mpi(4, "tessera-train", training("2", folder / "one"));
  REQUIRE(one_host.exit_code == 0);
  REQUIRE(losses_of(folder / "one").size() == 2);
  // With a process table of its own a host cannot map the other's memory either.
  for (const ProcessTables tables : {ProcessTables::kShared, ProcessTables::kOwn}) {
    const std::string log = folder / ("two" + std::to_string(static_cast<int>(tables)));
    const Ran ran = hosts.train(tables, training("2", log));
    CAPTURE(static_cast<int>(tables), ran.err);
    REQUIRE(ran.exit_code == 0);
    CHECK(losses_of(log) == losses_of(folder / "one"));
  }
}

// Left to itself mpirun ends the job, and OpenMPI's own "peer hung up" may keep a rank within a
// call of MPI until it is killed: it waits for mpirun to have printed that. Told to leave the job
// alone, mpirun says nothing of it.
TEST_CASE("a rank killed on the other host is named by every other", "[mpi][hosts]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const bool job_is_left_alone = GENERATE(true, false);
  CAPTURE(job_is_left_alone);
  const ScratchFolder folder;
  const std::string log = folder / "log", records = folder / "records";
  bool killed = false;
  std::thread killer([&] {
    becomes_true([&] { return !losses_of(log).empty(); }, 4 * kSoon);
    const pid_t victim = process_of("3", log);
    killed = victim > 0 && ::kill(victim, SIGKILL) == 0;
  });
  std::vector<std::string> arguments = training(kNoEnd, log), options;
  arguments.insert(arguments.end(), {"--recorder", records});
  if (job_is_left_alone) options.push_back("--enable-recovery");
  const Ran ran = hosts.train(ProcessTables::kOwn, arguments, options);
  killer.join();
  CAPTURE(ran.err);
  CHECK(killed);
  for (const char* rank : {"0", "1", "2"}) {
    CHECK(becomes_true([&] { return process_of(rank, log) == 0; }, kSoon));
  }
  if (!job_is_left_alone) {
    CHECK(ran.exit_code != 0);
    return;
  }
  for (const std::int64_t rank : {0, 1, 2}) {
    CAPTURE(rank);
    const auto record = read_records(records + "/" + flight::file_name_of(rank));
    REQUIRE(record.ok());
    CHECK_THAT(record->failure, Catch::StartsWith("rank 3 died in "));
  }
}

TEST_CASE("ranks over NCCL on two hosts train as on one, bit for bit", "[hosts][nccl]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const ScratchFolder folder;
  std::vector<std::string> on_one = training("2", folder / "one", "nccl");
  on_one.insert(on_one.end(), {"--ranks", "4"});
  REQUIRE(run_program("tessera-train", on_one).exit_code == 0);
  REQUIRE(losses_of(folder / "one").size() == 2);
  for (auto& rank : start_over_nccl(hosts, folder, training("2", folder / "two", "nccl"))) {
    const Ran ran = rank.finish();
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 0);
  }
  CHECK(losses_of(folder / "two") == losses_of(folder / "one"));
}

TEST_CASE("rows go to the memory of a host's ranks over NCCL, and to no other host's",
          "[hosts][nccl][dispatch]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const ScratchFolder folder;
  const auto with = [&](const std::string& more, const std::string& log) {
    std::vector<std::string> all = training("2", folder / log, "nccl");
    const auto mesh = std::ranges::find(all, "--parallel") + 1;
    *mesh = R"({"dp_shard":2,"tp":2,"ep":4,"dispatcher":"peer")" + more + "}";
    return all;
  };
  const std::string nodes = R"(,"ranks_per_node":2)";
  std::vector<std::string> on_one = with(nodes, "one");
  on_one.insert(on_one.end(), {"--ranks", "4"});
  REQUIRE(run_program("tessera-train", on_one).exit_code == 0);
  REQUIRE(losses_of(folder / "one").size() == 2);
  for (auto& rank : start_over_nccl(hosts, folder, with(nodes, "two"))) {
    const Ran ran = rank.finish();
    CAPTURE(ran.err);
    CHECK(ran.exit_code == 0);
  }
  CHECK(losses_of(folder / "two") == losses_of(folder / "one"));
  std::string said;
  for (auto& rank : start_over_nccl(hosts, folder, with("", "refused"))) {
    const Ran ran = rank.finish();
    CHECK(ran.exit_code == 3);
    said += ran.err;
  }
  CHECK_THAT(said, Catch::Contains("which this backend does not reach (rank 2 is on another host "
                                   "than rank 0); allowed: the other dispatchers, or "
                                   "ranks_per_node with no more ranks than do"));
}

TEST_CASE("a rank over NCCL that is killed on the other host is named by every other",
          "[hosts][nccl]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const ScratchFolder folder;
  const std::string log = folder / "log";
  auto ranks = start_over_nccl(hosts, folder, training(kNoEnd, log, "nccl"));
  REQUIRE(becomes_true([&] { return !losses_of(log).empty(); }, 4 * kSoon));
  ranks[3].signal(SIGKILL);
  const Ran victim = ranks[3].finish();
  CHECK(victim.exit_code == 128 + SIGKILL);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Ran ran = ranks[rank].finish();
    CAPTURE(rank, ran.err);
    CHECK(ran.exit_code == 4);
    CHECK_THAT(ran.err, Catch::Contains("tessera-train: rank 3 died in "));
  }
}

TEST_CASE("garbage and recorded sessions at the control ports change no bit of a job",
          "[mpi][hosts]") {
  const TwoHosts hosts;
  if (!hosts.refused().empty()) return skip(hosts.refused());
  const ScratchFolder folder;
  constexpr std::size_t kSteps = 8;
  std::vector<std::string> alone = losses_beside(hosts, kSteps, [] {});
  const Wiretap tap(hosts);
  Attack done;
  std::vector<std::string> attacked =
      losses_beside(hosts, kSteps, [&] { done = attack(hosts, tap); });
  CHECK(done.num_heard >= 3);  // ranks 1, 2 and 3 joined the hub
  CHECK(done.num_heeded == 0);
  REQUIRE(alone.size() >= kSteps);
  REQUIRE(attacked.size() >= kSteps);
  alone.resize(kSteps);
  attacked.resize(kSteps);
  CHECK(attacked == alone);
}

}  // namespace tessera::testing
