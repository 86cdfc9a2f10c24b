// runtime/nccl_world.h: ranks on the NCCL backend: data go between devices by NCCL's calls, while
// what ranks say of themselves goes by the host.
#pragma once

#include <functional>

#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Runs `body` on `num_ranks` threads, each with its World, like run_ranks() of the threads
/// backend. options.allocator gives each rank memory of a card of its own. Returns the first error
/// of any rank ("rank 3: …"), or OK. Errors: InvalidArgument where a rank's memory is not a card's;
/// FailedPrecondition where NCCL refuses two ranks on one card.
Status run_nccl_ranks(int num_ranks, const WorldOptions& options,
                      const std::function<void(World&)>& body);
/// The same over NCCL emulated, on emulated devices (emulation/nccl.h).
Status run_emulated_nccl_ranks(int num_ranks, const WorldOptions& options,
                               const std::function<void(World&)>& body);

}  // namespace tessera
