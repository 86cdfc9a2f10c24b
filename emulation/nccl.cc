#include "emulation/nccl.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "emulation/nccl_comm.h"

namespace tessera::emulation {
namespace {

/// What a thread has given between ncclGroupStart() and ncclGroupEnd().
struct Group {
  int depth = 0;
  std::vector<std::pair<NcclComm*, std::pair<NcclCall, cudaStream_t>>> calls;
};
Group& group() {
  thread_local Group open;
  return open;
}

std::atomic<int>& comms_made() {
  static std::atomic<int> number{0};
  return number;
}

std::atomic<std::int64_t>& messages() {
  static std::atomic<std::int64_t> number{0};
  return number;
}

ncclResult_t add(NcclComm* comm, const NcclCall& call, cudaStream_t stream) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (call.is_pair() && (call.peer < 0 || call.peer >= comm->size())) {
    return refuse(ncclInvalidArgument, "peer " + std::to_string(call.peer) + " of " +
                                           std::to_string(comm->size()) + " ranks");
  }
  if (call.type == ncclFloat16 || call.type == ncclInt8 || call.type == ncclUint32 ||
      call.type == ncclUint64) {
    return refuse(ncclInvalidArgument, "a type that the emulation does not have");
  }
  if (comm->is_revoked()) return refuse(ncclInvalidUsage, "the communicator was revoked");
  if (!comm->is_whole() || comm->registers()) {
    return refuse(ncclInvalidUsage, "the communicator is not ready");
  }
  if (group().depth > 0) {
    group().calls.push_back({comm, {call, stream}});
    return ncclSuccess;
  }
  return comm->submit({call}, stream);
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  const char* const asked = std::getenv("TESSERA_EMULATED_NCCL_VERSION");
  *version = asked == nullptr ? NCCL_VERSION_CODE : std::atoi(asked);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return last_refusal().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id->internal, 0, sizeof id->internal);
  new_clique_id().copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (num_ranks < 1 || rank < 0 || rank >= num_ranks) {
    return refuse(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(num_ranks));
  }
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return refuse(ncclUnhandledCudaError, "no device");
  id.internal[sizeof id.internal - 1] = '\0';
  const std::shared_ptr<NcclClique> clique = clique_of(id.internal, num_ranks);
  if (clique->size != num_ranks) {
    return refuse(ncclInvalidArgument, std::to_string(num_ranks) + " ranks where others say " +
                                           std::to_string(clique->size));
  }
  auto made = std::make_unique<NcclComm>(clique, rank, device);
  ++comms_made();
  made->blocking = config == nullptr || config->blocking != 0;
  return made.release()->come(comm);
}

int num_nccl_comms_made() { return comms_made(); }
std::int64_t num_nccl_messages() { return messages(); }

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return comm->split(color, key, config == nullptr || config->blocking != 0, made);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = comm->state();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  comm->drain();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  comm->drain_graphs();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->abort();
  comm->drain_graphs();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (flags != NCCL_REVOKE_DEFAULT) return refuse(ncclInvalidArgument, "flags of a revoke");
  comm->abort();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = comm->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->device();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group().depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth > 0) return ncclSuccess;
  auto calls = std::exchange(group().calls, {});
  while (!calls.empty()) {
    NcclComm* const comm = calls.front().first;
    const cudaStream_t stream = calls.front().second.second;
    std::vector<NcclCall> own;
    for (const auto& [other, call] : calls) {
      if (other != comm) continue;
      if (call.second != stream) {
        return refuse(ncclInvalidUsage, "calls of one communicator on two streams");
      }
      own.push_back(call.first);
    }
    std::erase_if(calls, [&](const auto& each) { return each.first == comm; });
    if (const ncclResult_t result = comm->submit(std::move(own), stream); result != ncclSuccess) {
      return result;
    }
  }
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {NcclKind::kAllReduce, send, recv, count, type, op}, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add(comm, {NcclKind::kReduceScatter, send, recv, recv_count, type, op}, stream);
}
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {NcclKind::kAllGather, send, recv, send_count, type}, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {NcclKind::kBroadcast, send, recv, count, type, ncclSum, root}, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  ++messages();
  return add(comm, {NcclKind::kSend, send, nullptr, count, type, ncclSum, peer}, stream);
}
ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {NcclKind::kRecv, nullptr, recv, count, type, ncclSum, peer}, stream);
}

}  // namespace tessera::emulation
