// emulation/nccl.h: stands where NCCL's header of that name would: the calls that the engine uses,
// among ranks that are threads of this process or processes of this host, on emulated streams. As
// on cards, a call gives its stream the work and returns; the stream waits for the peers' streams,
// for ever where one never comes, until the communicator is aborted. Stricter: calls that differ
// between ranks (kind, count, dtype, operation, root) never end either, where NCCL may write
// anywhere; the calls of one communicator go to one stream; two ranks of a communicator need two
// devices. Thread-safety: a communicator is used by one thread at a time, but ncclCommAbort(),
// ncclCommRevoke() and ncclCommGetAsyncError() may come from any.
#pragma once

#include <cstddef>

#include "emulation/cuda_runtime.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR -1
#define NCCL_REVOKE_DEFAULT 0
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_CONFIG_UNDEF_INT (-2147483647 - 1)

namespace tessera::emulation {

class NcclComm;
using ncclComm_t = NcclComm*;
struct NcclWindow;
using ncclWindow_t = NcclWindow*;
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

/// Numbers as NCCL's.
enum ncclResult_t {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclRedOp_t { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclDataType_t {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

/// `blocking` 0: calls that wait for other ranks return ncclInProgress, and ncclCommGetAsyncError()
/// tells when they are done.
struct ncclConfig_t {
  int blocking = NCCL_CONFIG_UNDEF_INT;
  const char* commName = nullptr;
};
#define NCCL_CONFIG_INITIALIZER \
  {}

/// TESSERA_EMULATED_NCCL_VERSION in the environment, where it is set.
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
/// What this thread's last failed call was refused for.
const char* ncclGetLastError(ncclComm_t comm);

ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
/// Of the current device.
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
/// Collective over `comm`; a rank of NCCL_SPLIT_NOCOLOR gets none. Refused where ranks are in
/// several processes.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
/// Waits for the communicator's work, and until graphs that hold calls of it are gone, as NCCL
/// does.
ncclResult_t ncclCommDestroy(ncclComm_t comm);
/// Ends this rank's work, whatever the others do, and destroys the communicator; waits for graphs
/// likewise.
ncclResult_t ncclCommAbort(ncclComm_t comm);
/// Ends this rank's work, whatever the others do. The communicator stays, for its end alone: it
/// takes no calls any more. `flags`: 0.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);
ncclResult_t ncclCommCount(ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank);
/// Which card it is of.
ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device);

ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream);
/// The n-th send to a rank meets its n-th recv from this one.
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream);

/// Memory of the current device that peers can map.
ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes);
/// Windows of it, and those of peers, keep what they need. Its streams are waited for, as
/// cudaFree() does.
ncclResult_t ncclMemFree(void* memory);
/// Collective: the n-th registration of a rank meets its peers' n-th. `memory` of ncclMemAlloc(),
/// aligned to NCCL_WIN_REQUIRED_ALIGNMENT, as much on all ranks; `flags`:
/// NCCL_WIN_COLL_SYMMETRIC. Where the communicator does not block, `window` is written once
/// ncclCommGetAsyncError() says so, and no calls come before.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                    ncclWindow_t* window, int flags);
/// Waits for nobody: peers that still use this rank's memory keep it.
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

/// What goes wrong with one of this process's ranks from its `number`-th call on (1 the first of
/// all communicators that its device has), until nccl_heals().
enum class NcclFault {
  kHangs,       ///< its streams never come to the call
  kFails,       ///< ncclCommGetAsyncError() says ncclRemoteError, and the call never ends
  kOtherCount,  ///< it calls with one element less
};
void plant_nccl_fault(int device, NcclFault fault, int number);
void nccl_heals();
/// How many communicators this process has asked for, one a rank.
int num_nccl_comms_made();
/// Likewise, that were sent from one rank to another.
std::int64_t num_nccl_messages();

}  // namespace tessera::emulation

// As NCCL's own header, which knows no namespaces.
using namespace tessera::emulation;  // NOLINT(google-global-names-in-headers)
