// Which rank a process is, by what launchers put into its environment, and what is said of an
// environment that does not tell.
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "runtime/control/launch.h"
#include "testing/arrays.h"

namespace tessera {
namespace {

using Set = std::map<std::string, std::string>;

StatusOr<std::optional<Launch>> read(const Set& set) {
  return read_launch([&](const char* name) -> const char* {
    const auto at = set.find(name);
    return at == set.end() ? nullptr : at->second.c_str();
  });
}
Launch launch_in(const Set& set) { return value_or_throw(read(set)).value(); }
std::string refusal_of(const Set& set) {
  const auto launch = read(set);
  CHECK(launch.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(message_of(launch.status()));
}

const Set kTorchrun = {{"RANK", "5"},
                       {"WORLD_SIZE", "8"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "node1"},
                       {"MASTER_PORT", "29500"},
                       {"TORCHELASTIC_RUN_ID", "a7"},
                       {"TORCHELASTIC_RESTART_COUNT", "2"}};
const Set kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "2"},
                      {"OMPI_COMM_WORLD_SIZE", "4"},
                      {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                      {"PMIX_NAMESPACE", "812"}};
const Set kMpich = {
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

Set with(Set set, const Set& others) {
  for (const auto& [name, value] : others) set[name] = value;
  return set;
}
Set without(Set set, const std::string& name) {
  set.erase(name);
  return set;
}

}  // namespace

TEST_CASE("torchrun's variables say which rank a process is", "[runtime][control][launch]") {
  const Launch launch = launch_in(kTorchrun);
  CHECK(launch.launcher == "torchrun");
  CHECK(launch.rank == 5);
  CHECK(launch.size == 8);
  CHECK(launch.local_rank == 1);
  CHECK_FALSE(launch.is_one_host);
  CHECK(launch.address == "node1");
  CHECK(launch.first_port == 29501);
  CHECK(launch.num_ports == kMeetingPorts);
  CHECK(launch_in(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "8"}})).is_one_host);
  CHECK(launch_in(with(kTorchrun, {{"MASTER_PORT", "65530"}})).first_port == 65514);
  CHECK(launch_in(without(kTorchrun, "TORCHELASTIC_RUN_ID")).launcher == "the launcher");
}

TEST_CASE("a job's restarts, runs and secrets are told apart", "[runtime][control][launch]") {
  const std::string job = launch_in(kTorchrun).job;
  CHECK(launch_in(with(kTorchrun, {{"RANK", "0"}, {"LOCAL_RANK", "0"}})).job == job);
  for (const char* name :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT", "TESSERA_JOB_SECRET"}) {
    CAPTURE(name);
    CHECK(launch_in(with(kTorchrun, {{name, "3"}})).job != job);
  }
}

TEST_CASE("TESSERA_PORT is the one port", "[runtime][control][launch]") {
  const Launch launch = launch_in(with(without(kTorchrun, "MASTER_PORT"), {{"TESSERA_PORT", "7"}}));
  CHECK(launch.first_port == 7);
  CHECK(launch.num_ports == 1);
}

TEST_CASE("processes of mpirun need no more where they are on one host",
          "[runtime][control][launch]") {
  for (const Set& set : {kOpenMpi, kMpich}) {
    const Launch launch = launch_in(set);
    CHECK(launch.launcher == "mpirun");
    CHECK(launch.rank == launch.size / 2);
    CHECK(launch.local_rank == launch.rank);
    CHECK(launch.is_one_host);
    CHECK(launch.address == "127.0.0.1");
    CHECK(launch.first_port >= 20'000);
    CHECK(launch.num_ports == kMeetingPorts);
    CHECK(launch.first_port + launch.num_ports <= 32'000);
    CHECK(launch_in(set).job == launch.job);
  }
  const Set two_hosts = with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}});
  CHECK(refusal_of(two_hosts) ==
        "mpirun has started ranks on several hosts (OMPI_COMM_WORLD_LOCAL_SIZE is 3, "
        "OMPI_COMM_WORLD_SIZE 4): give them rank 0's host and a port with MASTER_ADDR and "
        "MASTER_PORT (or TESSERA_PORT)");
  const Launch launch =
      launch_in(with(two_hosts, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}));
  CHECK(launch.address == "node1");
  CHECK(launch.first_port == 29501);
}

TEST_CASE("a launch without a name is told by its parent and when that started",
          "[runtime][control][launch]") {
  const std::string parent = std::to_string(::getppid());
  std::string stat;
  std::getline(std::ifstream("/proc/" + parent + "/stat"), stat);
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string started;
  for (int field = 3; field <= 22; ++field) fields >> started;
  CHECK_THAT(launch_in(kMpich).job, Catch::Contains(" " + parent + " " + started + "\n"));
}

TEST_CASE("a process that nobody launched is told so", "[runtime][control][launch]") {
  CHECK(read({}).value() == std::nullopt);
  CHECK(read({{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}).value() == std::nullopt);
}

TEST_CASE("an environment that does not tell is refused by name", "[runtime][control][launch]") {
  const std::string needs =
      "; a rank needs RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT (or "
      "TESSERA_PORT), which torchrun sets";
  CHECK(refusal_of({{"RANK", "0"}}) ==
        "the environment has RANK but no WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT" + needs);
  CHECK(refusal_of(without(kTorchrun, "RANK")) ==
        "the environment has WORLD_SIZE but no RANK" + needs);
  struct Case {
    const char *name, *value, *allowed;
  };
  for (const Case& each :
       {Case{"RANK", "8", "0 to 7"}, Case{"RANK", "-1", "0 to 7"}, Case{"RANK", "5 ", "0 to 7"},
        Case{"WORLD_SIZE", "0", "1 to 65536"}, Case{"WORLD_SIZE", "0x8", "1 to 65536"},
        Case{"LOCAL_RANK", "4", "0 to 3"}, Case{"LOCAL_WORLD_SIZE", "9", "1 to 8"},
        Case{"MASTER_PORT", "65536", "1 to 65535"}, Case{"TESSERA_PORT", "", "1 to 65535"}}) {
    CHECK(refusal_of(with(kTorchrun, {{each.name, each.value}})) ==
          "the environment's " + std::string(each.name) + " is \"" + each.value +
              "\"; whole numbers from " + each.allowed + " are allowed");
  }
}

TEST_CASE("RANK from a shell does not go for mpirun's", "[runtime][control][launch]") {
  const Set shell = with(kOpenMpi, {{"RANK", "0"},
                                    {"WORLD_SIZE", "1"},
                                    {"LOCAL_RANK", "0"},
                                    {"MASTER_ADDR", "node1"},
                                    {"MASTER_PORT", "29500"}});
  CHECK(refusal_of(shell) ==
        "the environment has RANK 0 of WORLD_SIZE 1, but OMPI_COMM_WORLD_RANK 2 of "
        "OMPI_COMM_WORLD_SIZE 4; unset RANK and WORLD_SIZE under mpirun, or set both to mpirun's");
  // One torchrun on each host.
  CHECK(launch_in(with(shell, {{"TORCHELASTIC_RUN_ID", "a7"}})).size == 1);
  CHECK(launch_in(with(shell, {{"RANK", "2"}, {"WORLD_SIZE", "4"}})).rank == 2);
}

}  // namespace tessera
