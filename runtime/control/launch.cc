#include "runtime/control/launch.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/control/host_identity.h"

namespace tessera {
namespace {

constexpr std::int64_t kLastPort = 65'535;
// Where mpirun gives no port: below those that systems give away by themselves.
constexpr int kFirstFreePort = 20'000;
constexpr int kFreePorts = 12'000;

/// A number and where it may lie.
struct Bounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  bool has(const char* name) const { return variables_(name) != nullptr; }
  std::string text(const char* name) const {
    const char* const value = variables_(name);
    return value == nullptr ? "" : value;
  }
  StatusOr<std::int64_t> number(const char* name, Bounds allowed) const {
    const std::string seen = text(name);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(seen.data(), seen.data() + seen.size(), number);
    const bool is_whole = error == std::errc() && end == seen.data() + seen.size();
    if (is_whole && number >= allowed.least && number <= allowed.most) return number;
    return invalid_argument("the environment's " + std::string(name) + " is \"" + seen +
                            "\"; whole numbers from " + std::to_string(allowed.least) + " to " +
                            std::to_string(allowed.most) + " are allowed");
  }
  /// Names what is missing, beside what is there.
  Status check_set(const std::vector<const char*>& names, const char* there) const {
    std::string missing;
    for (const char* name : names) {
      if (text(name).empty()) missing += (missing.empty() ? "" : ", ") + std::string(name);
    }
    if (missing.empty()) return absl::OkStatus();
    return invalid_argument("the environment has " + std::string(there) + " but no " + missing +
                            "; a rank needs RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and "
                            "MASTER_PORT (or TESSERA_PORT), which torchrun sets");
  }

 private:
  const Variables& variables_;
};

/// Rank 0's ports, from TESSERA_PORT or behind MASTER_PORT. Errors: InvalidArgument.
Status read_ports(const Reader& read, Launch& launch) {
  launch.num_ports = 1;
  if (read.has("TESSERA_PORT")) {
    TSR_ASSIGN_OR_RETURN(const std::int64_t port, read.number("TESSERA_PORT", {1, kLastPort}));
    launch.first_port = static_cast<int>(port);
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(const std::int64_t port, read.number("MASTER_PORT", {1, kLastPort}));
  launch.num_ports = kMeetingPorts;
  const bool has_room = port + kMeetingPorts <= kLastPort;
  launch.first_port = static_cast<int>(has_room ? port + 1 : port - kMeetingPorts);
  return absl::OkStatus();
}

StatusOr<Launch> read_torchrun(const Reader& read) {
  Launch launch{.launcher = read.has("TORCHELASTIC_RUN_ID") ? "torchrun" : "the launcher"};
  std::vector<const char*> needed = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR"};
  if (!read.has("TESSERA_PORT")) needed.push_back("MASTER_PORT");
  TSR_RETURN_IF_ERROR(read.check_set(needed, read.has("RANK") ? "RANK" : "WORLD_SIZE"));
  TSR_ASSIGN_OR_RETURN(launch.size, read.number("WORLD_SIZE", {1, kMaxLaunched}));
  TSR_ASSIGN_OR_RETURN(launch.rank, read.number("RANK", {0, launch.size - 1}));
  std::int64_t local_size = launch.size;
  if (read.has("LOCAL_WORLD_SIZE")) {
    TSR_ASSIGN_OR_RETURN(local_size, read.number("LOCAL_WORLD_SIZE", {1, launch.size}));
    launch.is_one_host = local_size == launch.size;
  }
  TSR_ASSIGN_OR_RETURN(launch.local_rank, read.number("LOCAL_RANK", {0, local_size - 1}));
  launch.address = read.text("MASTER_ADDR");
  TSR_RETURN_IF_ERROR(read_ports(read, launch));
  launch.job = "run " + read.text("TORCHELASTIC_RUN_ID") + "\nrestart " +
               read.text("TORCHELASTIC_RESTART_COUNT") + "\nat " + read.text("MASTER_PORT");
  return launch;
}

/// How an mpirun calls what it tells its processes.
struct MpirunNames {
  const char *rank, *size, *local_rank, *local_size;
};
constexpr MpirunNames kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr MpirunNames kMpich = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/// The process that started this one and when it was started itself: the ranks of a host have one.
std::string parent_text() {
  const std::string number = std::to_string(::getppid());
  std::string stat;
  std::getline(std::ifstream("/proc/" + number + "/stat"), stat);
  // The 22nd field; the second, a name in parentheses, may hold anything: the third follows it.
  std::string_view rest = std::string_view(stat).substr(std::min(stat.rfind(')') + 1, stat.size()));
  for (int field = 3; field < 22 && !rest.empty(); ++field) {
    rest.remove_prefix(std::min(rest.find(' ', 1), rest.size()));
  }
  return boot_id() + " " + number + std::string(rest.substr(0, rest.find(' ', 1)));
}

int port_of_job(const std::string& job) {
  std::uint32_t hash = 2'166'136'261U;  // FNV-1a: the same in every process
  for (const char c : job) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16'777'619U;
  return kFirstFreePort + static_cast<int>(hash % (kFreePorts / kMeetingPorts)) * kMeetingPorts;
}

StatusOr<Launch> read_mpirun(const Reader& read, const MpirunNames& names) {
  Launch launch{.launcher = "mpirun"};
  TSR_ASSIGN_OR_RETURN(launch.size, read.number(names.size, {1, kMaxLaunched}));
  TSR_ASSIGN_OR_RETURN(launch.rank, read.number(names.rank, {0, launch.size - 1}));
  TSR_ASSIGN_OR_RETURN(const std::int64_t local_size,
                       read.number(names.local_size, {1, launch.size}));
  TSR_ASSIGN_OR_RETURN(launch.local_rank, read.number(names.local_rank, {0, local_size - 1}));
  launch.is_one_host = local_size == launch.size;
  launch.address = read.text("MASTER_ADDR");
  const bool has_port = read.has("TESSERA_PORT") || read.has("MASTER_PORT");
  if (!launch.is_one_host && (launch.address.empty() || !has_port)) {
    return invalid_argument(
        "mpirun has started ranks on several hosts (" + std::string(names.local_size) + " is " +
        std::to_string(local_size) + ", " + names.size + " " + std::to_string(launch.size) +
        "): give them rank 0's host and a port with MASTER_ADDR and MASTER_PORT (or TESSERA_PORT)");
  }
  if (launch.address.empty()) launch.address = "127.0.0.1";
  launch.job = "mpirun " + (read.has("PMIX_NAMESPACE") ? read.text("PMIX_NAMESPACE")
                            : has_port                 ? read.text("MASTER_PORT")
                                                       : parent_text());
  if (has_port) {
    TSR_RETURN_IF_ERROR(read_ports(read, launch));
  } else {
    launch.first_port = port_of_job(launch.job);
    launch.num_ports = kMeetingPorts;
  }
  return launch;
}

/// torchrun's variables in a process of mpirun, from a shell or a script: they must say the same,
/// but where mpirun starts one torchrun a host.
Status check_both_alike(const Reader& read, const Launch& launch, const MpirunNames& names) {
  if (!read.has(names.rank) || !read.has(names.size) || read.has("TORCHELASTIC_RUN_ID")) {
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(const std::int64_t size, read.number(names.size, {1, kMaxLaunched}));
  TSR_ASSIGN_OR_RETURN(const std::int64_t rank, read.number(names.rank, {0, size - 1}));
  if (rank == launch.rank && size == launch.size) return absl::OkStatus();
  return invalid_argument("the environment has RANK " + std::to_string(launch.rank) +
                          " of WORLD_SIZE " + std::to_string(launch.size) + ", but " + names.rank +
                          " " + std::to_string(rank) + " of " + names.size + " " +
                          std::to_string(size) +
                          "; unset RANK and WORLD_SIZE under mpirun, or set both to mpirun's");
}

}  // namespace

StatusOr<std::optional<Launch>> read_launch(const Variables& variables) {
  const Reader read(variables);
  std::optional<Launch> launch;
  if (read.has("RANK") || read.has("WORLD_SIZE")) {
    TSR_ASSIGN_OR_RETURN(launch, read_torchrun(read));
    for (const MpirunNames& names : {kOpenMpi, kMpich}) {
      TSR_RETURN_IF_ERROR(check_both_alike(read, *launch, names));
    }
  } else if (read.has(kOpenMpi.size)) {
    TSR_ASSIGN_OR_RETURN(launch, read_mpirun(read, kOpenMpi));
  } else if (read.has(kMpich.size)) {
    TSR_ASSIGN_OR_RETURN(launch, read_mpirun(read, kMpich));
  }
  if (launch) launch->job += "\nsecret " + read.text("TESSERA_JOB_SECRET");
  return launch;
}

StatusOr<std::optional<Launch>> read_launch() {
  return read_launch([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace tessera
