// runtime/nccl_world.h: ranks on the NCCL backend: data go between devices by NCCL's calls, while
// what ranks say of themselves goes by the host.
#pragma once

#include <cstdint>
#include <functional>

#include "placement/api.h"
#include "runtime/control/launch.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// What a user has of NCCL already, as its header's types: the communicator (ncclComm_t) by which
/// the whole world's collectives go, of all ranks in their order and of this rank's card, and the
/// stream (cudaStream_t) that they are given to. Null: one is made. Both stay the user's, who gives
/// the communicator nothing while the run lasts: it is never destroyed, but revoked
/// (ncclCommRevoke) where the job fails.
struct NcclHandles {
  void* comm = nullptr;
  void* stream = nullptr;
};

/// How boxes of an exchange go (CollectiveCall::Kind::kExchange). kMessages: packed, sent by NCCL
/// and landed. kWindows: packed straight into NCCL's windows on the peers' cards, where NCCL maps
/// them for all ranks of the group and what one of them receives is within the call's cap; else as
/// messages. The same bits.
enum class ExchangeBy : std::uint8_t { kMessages, kWindows };

struct NcclOptions {
  /// Of processes, `allocator` is asked for memory with the local rank, and `timeout` is also how
  /// long ranks wait for one another at the start.
  WorldOptions world = {};
  /// Asked by each rank once, after its memory. All ranks give a communicator, or none. None: no
  /// handles.
  std::function<NcclHandles(std::int64_t rank)> handles = nullptr;
  /// The same on all ranks.
  ExchangeBy exchange = ExchangeBy::kMessages;
  /// Of processes: called once with the job's first failure, before this process is heard to end: a
  /// launcher ends the others with the first that does. Must not throw.
  std::function<void(const Status&)> on_failure = nullptr;
};

/// Runs `body` on `num_ranks` threads, each with its World, like run_ranks() of the threads
/// backend. options.world.allocator gives each rank memory of a card of its own. Returns the first
/// error of any rank ("rank 3: …"), or OK. Errors: InvalidArgument where a rank's memory is not a
/// card's, or its communicator not the world's; FailedPrecondition where NCCL refuses two ranks on
/// one card; Unavailable where there is no NCCL, or it is too old.
Status run_nccl_ranks(int num_ranks, const NcclOptions& options,
                      const std::function<void(World&)>& body);
/// The same over NCCL emulated, on emulated devices (emulation/nccl.h).
Status run_emulated_nccl_ranks(int num_ranks, const NcclOptions& options,
                               const std::function<void(World&)>& body);

/// Runs `body` as this process's rank: a rank that throws poisons the others. Returns the first
/// error of any rank ("rank 3: …"), or OK. Collective: yes, over the processes of the launch.
/// Errors: as run_nccl_ranks(); Unavailable where the ranks do not find one another in time, say
/// other numbers of ranks, come twice, or have other versions of NCCL.
Status run_nccl_process(const Launch& launch, const NcclOptions& options,
                        const std::function<void(World&)>& body);
/// The same over NCCL emulated, with all ranks on one machine.
Status run_emulated_nccl_process(const Launch& launch, const NcclOptions& options,
                                 const std::function<void(World&)>& body);

}  // namespace tessera
