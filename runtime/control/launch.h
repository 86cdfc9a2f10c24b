// runtime/control/launch.h: which rank of which job this process is, as the environment that its
// launcher gave it says: torchrun (or whoever sets the same variables), or mpirun of OpenMPI or
// MPICH, of which no call is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Ports after MASTER_PORT that rank 0 tries in turn: the launcher has that one itself.
constexpr int kMeetingPorts = 16;
constexpr std::int64_t kMaxLaunched = 65'536;  ///< ranks of a job

struct Launch {
  std::string launcher;  ///< for texts: "torchrun", "mpirun"
  std::int64_t rank = 0;
  std::int64_t size = 1;
  std::int64_t local_rank = 0;  ///< among those of this host: the number of its card
  bool is_one_host = false;     ///< as far as is known
  std::string address;          ///< a name or an address of rank 0's host
  int first_port = 0;           ///< which rank 0 takes, or one of the next
  int num_ports = 1;
  /// The same for the processes of this job and of this restart of it only.
  std::string job;
  bool operator==(const Launch&) const = default;
};

/// The value of a variable; null where it is not set.
using Variables = std::function<const char*(const char* name)>;

/// nullopt where no launcher started this process. Variables: RANK, WORLD_SIZE, LOCAL_RANK,
/// MASTER_ADDR, MASTER_PORT, and where they are set LOCAL_WORLD_SIZE, TORCHELASTIC_RUN_ID,
/// TORCHELASTIC_RESTART_COUNT; without RANK and WORLD_SIZE those of mpirun. TESSERA_PORT is rank
/// 0's port and no other is tried; TESSERA_JOB_SECRET must be the same on all ranks. Errors:
/// InvalidArgument naming the variable, what was seen and what is allowed.
StatusOr<std::optional<Launch>> read_launch(const Variables& variables);
/// Of this process's environment.
StatusOr<std::optional<Launch>> read_launch();

}  // namespace tessera
