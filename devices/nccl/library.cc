#include "devices/nccl/library.h"

// Entries that other libraries of a program must not take for NCCL's own.
#pragma GCC visibility push(hidden)
#include <nccl.h>
#include <nccl_device/core.h>
#pragma GCC visibility pop

#include <dlfcn.h>

#include <cstddef>
#include <string>

#include "runtime/nccl/version_text.h"

namespace tessera {
namespace {

constexpr const char* kFile = "libnccl.so.2";
constexpr int kLeast = NCCL_VERSION(2, 28, 7);  // ncclCommRevoke

struct Library {
  void* handle = nullptr;
  Status status;
};

Library open_library() {
  Library made;
  made.handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (made.handle == nullptr) {
    const char* const said = ::dlerror();
    made.status = unavailable(std::string("there is no NCCL (") + kFile +
                              "): " + (said == nullptr ? "unknown" : said) +
                              "; LD_LIBRARY_PATH says where it lies");
    return made;
  }
  void* const entry = ::dlsym(made.handle, "ncclGetVersion");
  int version = 0;
  if (entry != nullptr) reinterpret_cast<decltype(&ncclGetVersion)>(entry)(&version);
  if (version < kLeast) {
    made.status = unavailable(std::string(kFile) + " is NCCL " + nccl_version_text(version) +
                              "; allowed: " + nccl_version_text(kLeast) + " or later");
  }
  return made;
}

const Library& library() {
  static const Library opened = open_library();
  return opened;
}

/// Null where there is none that can be used.
template <class F>
F* entry_of(const char* name) {
  if (!library().status.ok()) return nullptr;
  return reinterpret_cast<F*>(::dlsym(library().handle, name));
}

}  // namespace

Status nccl_library_status() { return library().status; }

}  // namespace tessera

#define TSR_FORWARD(name, parameters, arguments)                         \
  ncclResult_t name parameters {                                         \
    static auto* const entry = tessera::entry_of<decltype(name)>(#name); \
    return entry == nullptr ? ncclSystemError : entry arguments;         \
  }

TSR_FORWARD(ncclGetVersion, (int* version), (version))
TSR_FORWARD(ncclGetUniqueId, (ncclUniqueId * id), (id))
TSR_FORWARD(ncclCommInitRankConfig,
            (ncclComm_t * comm, int num_ranks, ncclUniqueId id, int rank, ncclConfig_t* config),
            (comm, num_ranks, id, rank, config))
TSR_FORWARD(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* error), (comm, error))
TSR_FORWARD(ncclCommCount, (const ncclComm_t comm, int* count), (comm, count))
TSR_FORWARD(ncclCommUserRank, (const ncclComm_t comm, int* rank), (comm, rank))
TSR_FORWARD(ncclCommCuDevice, (const ncclComm_t comm, int* device), (comm, device))
TSR_FORWARD(ncclCommRevoke, (ncclComm_t comm, int flags), (comm, flags))
TSR_FORWARD(ncclCommAbort, (ncclComm_t comm), (comm))
TSR_FORWARD(ncclCommDestroy, (ncclComm_t comm), (comm))
TSR_FORWARD(ncclGroupStart, (), ())
TSR_FORWARD(ncclGroupEnd, (), ())
TSR_FORWARD(ncclAllReduce,
            (const void* send, void* recv, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
             ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, op, comm, stream))
TSR_FORWARD(ncclReduceScatter,
            (const void* send, void* recv, std::size_t recv_count, ncclDataType_t type,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream),
            (send, recv, recv_count, type, op, comm, stream))
TSR_FORWARD(ncclAllGather,
            (const void* send, void* recv, std::size_t send_count, ncclDataType_t type,
             ncclComm_t comm, cudaStream_t stream),
            (send, recv, send_count, type, comm, stream))
TSR_FORWARD(ncclBroadcast,
            (const void* send, void* recv, std::size_t count, ncclDataType_t type, int root,
             ncclComm_t comm, cudaStream_t stream),
            (send, recv, count, type, root, comm, stream))
TSR_FORWARD(ncclSend,
            (const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
             cudaStream_t stream),
            (send, count, type, peer, comm, stream))
TSR_FORWARD(ncclRecv,
            (void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
             cudaStream_t stream),
            (recv, count, type, peer, comm, stream))

TSR_FORWARD(ncclMemAlloc, (void** memory, std::size_t bytes), (memory, bytes))
TSR_FORWARD(ncclMemFree, (void* memory), (memory))
TSR_FORWARD(ncclCommWindowRegister,
            (ncclComm_t comm, void* memory, std::size_t bytes, ncclWindow_t* window, int flags),
            (comm, memory, bytes, window, flags))
TSR_FORWARD(ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window), (comm, window))

ncclTeam_t ncclTeamLsa(ncclComm_t comm) {
  static auto* const entry = tessera::entry_of<ncclTeam_t(ncclComm_t)>("ncclTeamLsa");
  return entry == nullptr ? ncclTeam_t{} : entry(comm);
}
const char* ncclGetErrorString(ncclResult_t result) {
  static auto* const entry = tessera::entry_of<decltype(ncclGetErrorString)>("ncclGetErrorString");
  return entry == nullptr ? "NCCL is not there" : entry(result);
}
const char* ncclGetLastError(ncclComm_t comm) {
  static auto* const entry = tessera::entry_of<decltype(ncclGetLastError)>("ncclGetLastError");
  return entry == nullptr ? "" : entry(comm);
}
