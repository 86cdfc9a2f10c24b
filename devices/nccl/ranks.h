// devices/nccl/ranks.h: ranks over NCCL on cards of either kind, as one call.
#pragma once

#include <functional>

#include "kernels/device.h"
#include "runtime/nccl_world.h"

namespace tessera {

/// run_nccl_ranks() on cards, run_emulated_nccl_ranks() on emulated ones, each rank on the card of
/// its number where options.world.allocator is null. Errors: also Unavailable where these programs
/// are built without NCCL, or there are fewer cards than ranks; InvalidArgument for the processor.
Status run_nccl_ranks_on(DeviceId::Kind kind, int num_ranks, NcclOptions options,
                         const std::function<void(World&)>& body);
/// The same of run_nccl_process(), on the card of the local rank's number.
Status run_nccl_process_on(DeviceId::Kind kind, const Launch& launch, NcclOptions options,
                           const std::function<void(World&)>& body);

}  // namespace tessera
