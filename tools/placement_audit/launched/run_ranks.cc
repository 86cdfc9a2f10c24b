#include "tools/placement_audit/launched/run_ranks.h"

#include <cstdio>
#include <cstdlib>

#include "devices/devices.h"
#include "devices/nccl/ranks.h"
#include "io/exit_code.h"
#include "placement/printable.h"
#include "runtime/mpi_world.h"
#include "runtime/world.h"

namespace tessera::audit {
namespace {

using Body = std::function<void(World&)>;

bool mpirun_has_started_this() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

StatusOr<WorldOptions> world_options(DeviceId::Kind device) {
  WorldOptions options{.threads_per_rank = 1};
  TSR_ASSIGN_OR_RETURN(options.allocator, memory_of_devices(device));
  return options;
}

Status run_on_mpi(DeviceId::Kind device, const Body& body) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<MpiSession> session, MpiSession::start());
  MpiOptions options;
  TSR_ASSIGN_OR_RETURN(options.world, world_options(device));
  const Status status = run_mpi_rank(options, body);
  if (status.ok()) return status;
  if (session->rank() == 0) {
    std::fprintf(stderr, "placement-audit: %s\n", printable(message_of(status)).c_str());
    std::fflush(stderr);
  }
  session->abort(static_cast<int>(exit_code_for(status)));
  return status;  // GCC does not see that abort() never returns
}

Status run_on_nccl(DeviceId::Kind device, const AuditRanks& ranks, const Body& body) {
  if (device == DeviceId::Kind::kCpu) {
    return invalid_argument("--backend nccl: goes with --device cuda or emulated");
  }
  TSR_ASSIGN_OR_RETURN(const std::optional<Launch> launch, read_launch());
  NcclOptions options{.world = {.threads_per_rank = 1}};
  if (launch) return run_nccl_process_on(device, *launch, std::move(options), body);
  return run_nccl_ranks_on(device, static_cast<int>(ranks.num_ranks), std::move(options), body);
}

}  // namespace

Status run_ranks_of(const AuditRanks& ranks, const Body& body) {
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", ranks.device));
  const bool is_mpi =
      ranks.backend == "mpi" || (ranks.backend.empty() && mpirun_has_started_this());
  if (is_mpi) return run_on_mpi(device, body);
  if (ranks.backend == "nccl") return run_on_nccl(device, ranks, body);
  TSR_ASSIGN_OR_RETURN(const WorldOptions options, world_options(device));
  return run_ranks(static_cast<int>(ranks.num_ranks), options, body);
}

}  // namespace tessera::audit
