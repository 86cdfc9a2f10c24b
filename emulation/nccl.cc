// A communicator's ranks share a clique. Each call of a rank is work of its stream's thread: it
// posts where its data lie, waits until all peers have posted theirs, reads what it needs from
// their memory, and waits until nobody reads its own any more. Calls get their numbers when the
// stream comes to them, so that a captured graph may do them again.
#include "emulation/nccl.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tessera::emulation {
namespace {

enum class Kind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

struct Call {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  ///< or root
  bool is_pair() const { return kind == Kind::kSend || kind == Kind::kRecv; }
  bool agrees_with(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           peer == other.peer;
  }
};

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

/// One collective in flight.
struct Meeting {
  std::vector<Call> calls;   ///< by rank
  std::vector<char> result;  ///< of an all_reduce, which may be in place
  int num_posted = 0;
  int num_done = 0;
};
/// A message in flight.
struct Letter {
  Call call;
  bool taken = false;
};

}  // namespace

/// What a communicator's ranks share.
struct NcclClique {
  explicit NcclClique(int num_ranks) : size(num_ranks) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, int> devices;  ///< by rank, of those that came
  std::map<std::size_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Letter>>> letters;  ///< by from, to
  /// Of splits, by their number.
  struct Split {
    std::vector<std::pair<int, int>> colors_and_keys;
    int num_came = 0;
    std::map<int, std::shared_ptr<NcclClique>> made;
  };
  std::map<std::size_t, Split> splits;
};

class NcclComm {
 public:
  NcclComm(std::shared_ptr<NcclClique> clique, int rank, int device)
      : clique_(std::move(clique)), rank_(rank), device_(device) {}

  NcclClique& clique() { return *clique_; }
  int rank() const { return rank_; }
  int size() const { return clique_->size; }
  int device() const { return device_; }
  /// Tells the others that this rank is there, and waits for them where it is to block. Deletes
  /// this where it is refused.
  ncclResult_t come(ncclComm_t* made);
  bool is_whole();
  ncclResult_t state();
  void abort();
  /// Until the stream has no more work of this communicator.
  void drain();
  ncclResult_t split(int color, int key, bool blocks, ncclComm_t* made);
  ncclResult_t submit(std::vector<Call> calls, cudaStream_t stream);
  std::size_t next_split = 0;
  bool blocking = true;

 private:
  void run(std::vector<Call>& calls);
  void run_collective(const Call& call);
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    clique_->changed.wait(lock, [&] { return aborted_ || ready(); });
    return !aborted_;
  }
  void read(const Call& own, Meeting& meeting);

  std::shared_ptr<NcclClique> clique_;
  int rank_, device_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failed_{false};
  std::size_t next_meeting_ = 0;  ///< of the stream's thread
  int under_way_ = 0;             ///< guarded by the clique's mutex
  cudaStream_t stream_ = nullptr;
};

namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}
ncclResult_t refuse(ncclResult_t result, std::string text) {
  last_error() = std::move(text);
  return result;
}

std::mutex& registry_mutex() {
  static std::mutex mutex;
  return mutex;
}
/// Cliques that not all ranks have joined, by unique id.
std::map<std::string, std::shared_ptr<NcclClique>>& registry() {
  static std::map<std::string, std::shared_ptr<NcclClique>> cliques;
  return cliques;
}

struct Planted {
  int device = -1;
  NcclFault fault = NcclFault::kHangs;
  int number = 0;
};
std::mutex& planted_mutex() {
  static std::mutex mutex;
  return mutex;
}
Planted& planted() {
  static Planted fault;
  return fault;
}
/// Whether the fault has come for this device's next call.
bool meets_fault(int device, NcclFault& fault) {
  const std::lock_guard lock(planted_mutex());
  Planted& at = planted();
  if (at.device != device) return false;
  if (at.number > 0) --at.number;
  fault = at.fault;
  return at.number == 0;
}

// ---- folds

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t to_bfloat16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  bits += 0x7fffU + ((bits >> 16) & 1U);
  return static_cast<std::uint16_t>(bits >> 16);
}

template <class T>
T folded(T a, T b, ncclRedOp_t op) {
  switch (op) {
    case ncclProd:
      return static_cast<T>(a * b);
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

/// In an order of its own, as a ring's: from the last rank down.
template <class T, class Load, class Store>
void fold_elements(const std::vector<const char*>& from, char* to, const Call& call,
                   const Load& load, const Store& store) {
  for (std::size_t i = 0; i < call.count; ++i) {
    auto value = load(from.back() + i * sizeof(T));
    for (std::size_t rank = from.size() - 1; rank-- > 0;) {
      value = folded(value, load(from[rank] + i * sizeof(T)), call.op);
    }
    if (call.op == ncclAvg)
      value = static_cast<decltype(value)>(value / static_cast<decltype(value)>(from.size()));
    store(to + i * sizeof(T), value);
  }
}
template <class T>
void fold_plain(const std::vector<const char*>& from, char* to, const Call& call) {
  const auto load = [](const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto store = [](char* at, T value) { std::memcpy(at, &value, sizeof value); };
  fold_elements<T>(from, to, call, load, store);
}

void fold(const std::vector<const char*>& from, char* to, const Call& call) {
  switch (call.type) {
    case ncclFloat32:
      return fold_plain<float>(from, to, call);
    case ncclFloat64:
      return fold_plain<double>(from, to, call);
    case ncclInt32:
      return fold_plain<std::int32_t>(from, to, call);
    case ncclInt64:
      return fold_plain<std::int64_t>(from, to, call);
    case ncclUint8:
      return fold_plain<std::uint8_t>(from, to, call);
    default:
      break;
  }
  const auto load = [](const char* at) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return from_bfloat16(bits);
  };
  const auto store = [](char* at, float value) {
    const std::uint16_t bits = to_bfloat16(value);
    std::memcpy(at, &bits, sizeof bits);
  };
  fold_elements<std::uint16_t>(from, to, call, load, store);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// ---- groups of calls

struct Group {
  int depth = 0;
  std::vector<std::pair<NcclComm*, std::pair<Call, cudaStream_t>>> calls;
};
Group& group() {
  thread_local Group open;
  return open;
}

ncclResult_t add(NcclComm* comm, const Call& call, cudaStream_t stream) {
  if (comm == nullptr) return refuse(ncclInvalidArgument, "no communicator");
  if (call.is_pair() && (call.peer < 0 || call.peer >= comm->size())) {
    return refuse(ncclInvalidArgument, "peer " + std::to_string(call.peer) + " of " +
                                           std::to_string(comm->size()) + " ranks");
  }
  if (call.type == ncclFloat16 || call.type == ncclInt8 || call.type == ncclUint32 ||
      call.type == ncclUint64) {
    return refuse(ncclInvalidArgument, "a type that the emulation does not have");
  }
  if (!comm->is_whole()) return refuse(ncclInvalidUsage, "the communicator is not ready");
  if (group().depth > 0) {
    group().calls.push_back({comm, {call, stream}});
    return ncclSuccess;
  }
  return comm->submit({call}, stream);
}

}  // namespace

// ---- NcclComm

ncclResult_t NcclComm::come(ncclComm_t* made) {
  std::unique_ptr<NcclComm> own(this);
  std::unique_lock lock(clique_->mutex);
  for (const auto& [rank, device] : clique_->devices) {
    if (rank == rank_) {
      return refuse(ncclInvalidUsage, "rank " + std::to_string(rank) + " has joined before");
    }
    if (device == device_) {
      return refuse(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(rank_) +
                                          " and rank " + std::to_string(rank) + " both on device " +
                                          std::to_string(device));
    }
  }
  clique_->devices[rank_] = device_;
  clique_->changed.notify_all();
  *made = own.release();
  if (!blocking) return ncclInProgress;
  wait(lock, [&] { return static_cast<int>(clique_->devices.size()) == clique_->size; });
  return ncclSuccess;
}

bool NcclComm::is_whole() {
  const std::lock_guard lock(clique_->mutex);
  return static_cast<int>(clique_->devices.size()) == clique_->size;
}

ncclResult_t NcclComm::state() {
  if (failed_) return ncclRemoteError;
  return is_whole() ? ncclSuccess : ncclInProgress;
}

void NcclComm::abort() {
  aborted_ = true;
  { const std::lock_guard lock(clique_->mutex); }
  clique_->changed.notify_all();
}

void NcclComm::drain() {
  std::unique_lock lock(clique_->mutex);
  clique_->changed.wait(lock, [&] { return under_way_ == 0; });
}

ncclResult_t NcclComm::submit(std::vector<Call> calls, cudaStream_t stream) {
  if (stream_ != nullptr && stream != stream_) {
    return refuse(ncclInvalidUsage, "calls of one communicator on two streams");
  }
  stream_ = stream;
  // Work that is captured is done when its graph is, as often as that is launched.
  cudaStreamCaptureStatus capturing{};
  const bool counts = cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
                      capturing == cudaStreamCaptureStatusNone;
  if (counts) {
    const std::lock_guard lock(clique_->mutex);
    ++under_way_;
  }
  const cudaError_t error =
      call_on(stream, [this, counts, clique = clique_, calls = std::move(calls)] {
        std::vector<Call> own = calls;
        if (!aborted_) run(own);
        if (!counts) return;
        const std::lock_guard lock(clique->mutex);
        --under_way_;
        clique->changed.notify_all();
      });
  return error == cudaSuccess ? ncclSuccess
                              : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

void NcclComm::run(std::vector<Call>& calls) {
  NcclFault fault{};
  if (meets_fault(device_, fault)) {
    if (fault == NcclFault::kOtherCount) {
      for (Call& call : calls) call.count -= std::min<std::size_t>(call.count, 1);
    } else {
      failed_ = fault == NcclFault::kFails;
      std::unique_lock lock(clique_->mutex);
      wait(lock, [] { return false; });
      return;
    }
  }
  // Messages first, all at once: what a rank sends may be what its peer waits for before it sends.
  std::vector<std::shared_ptr<Letter>> sent;
  {
    const std::lock_guard lock(clique_->mutex);
    for (const Call& call : calls) {
      if (call.kind != Kind::kSend) continue;
      sent.push_back(std::make_shared<Letter>(Letter{call}));
      clique_->letters[{rank_, call.peer}].push_back(sent.back());
    }
  }
  clique_->changed.notify_all();
  for (const Call& call : calls) {
    if (!call.is_pair()) run_collective(call);
  }
  for (const Call& call : calls) {
    if (call.kind != Kind::kRecv) continue;
    std::unique_lock lock(clique_->mutex);
    auto& waiting = clique_->letters[{call.peer, rank_}];
    const bool here = wait(lock, [&] {
      return !waiting.empty() && waiting.front()->call.count == call.count &&
             waiting.front()->call.type == call.type;
    });
    if (!here) return;
    const std::shared_ptr<Letter> letter = waiting.front();
    waiting.pop_front();
    lock.unlock();
    copy(call.recv, letter->call.send, call.count * size_of(call.type));
    lock.lock();
    letter->taken = true;
    clique_->changed.notify_all();
  }
  std::unique_lock lock(clique_->mutex);
  wait(lock, [&] {
    return std::all_of(sent.begin(), sent.end(), [](const auto& letter) { return letter->taken; });
  });
}

void NcclComm::run_collective(const Call& call) {
  const std::size_t number = next_meeting_++;
  const auto size = static_cast<std::size_t>(clique_->size);
  std::unique_lock lock(clique_->mutex);
  Meeting& meeting = clique_->meetings[number];
  meeting.calls.resize(size);
  meeting.calls[static_cast<std::size_t>(rank_)] = call;
  ++meeting.num_posted;
  const bool last = meeting.num_posted == clique_->size;
  const auto agree = [&] {
    return std::all_of(meeting.calls.begin(), meeting.calls.end(),
                       [&](const Call& other) { return other.agrees_with(call); });
  };
  if (last && call.kind == Kind::kAllReduce && agree()) {
    meeting.result.resize(call.count * size_of(call.type));
    std::vector<const char*> from;
    for (const Call& each : meeting.calls) from.push_back(static_cast<const char*>(each.send));
    fold(from, meeting.result.data(), call);
  }
  clique_->changed.notify_all();
  if (!wait(lock, [&] { return meeting.num_posted == clique_->size && agree(); })) return;
  lock.unlock();
  read(call, meeting);
  lock.lock();
  ++meeting.num_done;
  clique_->changed.notify_all();
  if (!wait(lock, [&] { return meeting.num_done >= clique_->size; })) return;
  // The last to have seen that all are done clears up.
  if (++meeting.num_done == 2 * clique_->size) clique_->meetings.erase(number);
}

void NcclComm::read(const Call& own, Meeting& meeting) {
  const std::size_t bytes = own.count * size_of(own.type);
  char* const to = static_cast<char*>(own.recv);
  const auto self = static_cast<std::size_t>(rank_);
  switch (own.kind) {
    case Kind::kAllReduce:
      return copy(to, meeting.result.data(), bytes);
    case Kind::kReduceScatter: {
      std::vector<const char*> from;
      for (const Call& each : meeting.calls) {
        from.push_back(static_cast<const char*>(each.send) + self * bytes);
      }
      return fold(from, to, own);
    }
    case Kind::kAllGather:
      for (std::size_t i = 0; i < meeting.calls.size(); ++i) {
        copy(to + i * bytes, meeting.calls[i].send, bytes);
      }
      return;
    case Kind::kBroadcast:
      return copy(to, meeting.calls[static_cast<std::size_t>(own.peer)].send, bytes);
    default:
      return;
  }
}

ncclResult_t NcclComm::split(int color, int key, bool blocks, ncclComm_t* made) {
  *made = nullptr;
  const std::size_t number = next_split++;
  std::unique_lock lock(clique_->mutex);
  NcclClique::Split& split = clique_->splits[number];
  split.colors_and_keys.resize(static_cast<std::size_t>(clique_->size));
  split.colors_and_keys[static_cast<std::size_t>(rank_)] = {color, key};
  ++split.num_came;
  clique_->changed.notify_all();
  if (!wait(lock, [&] { return split.num_came == clique_->size; })) {
    return refuse(ncclInternalError, "aborted");
  }
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  // (key, rank) of those with this color, in order.
  std::vector<std::pair<int, int>> members;
  for (std::size_t rank = 0; rank < split.colors_and_keys.size(); ++rank) {
    const auto& [other, other_key] = split.colors_and_keys[rank];
    if (other == color) members.emplace_back(other_key, static_cast<int>(rank));
  }
  std::sort(members.begin(), members.end());
  std::shared_ptr<NcclClique>& clique = split.made[color];
  if (clique == nullptr) clique = std::make_shared<NcclClique>(static_cast<int>(members.size()));
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.second == rank_; });
  auto comm = std::make_unique<NcclComm>(clique, static_cast<int>(at - members.begin()), device_);
  lock.unlock();
  comm->blocking = blocks;
  return comm.release()->come(made);
}

// ---- the calls

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
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

const char* ncclGetLastError(ncclComm_t) { return last_error().c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> next{1};
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string text = "emulated " + std::to_string(next++);
  text.copy(id->internal, sizeof id->internal - 1);
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
  std::shared_ptr<NcclClique> clique;
  {
    const std::lock_guard lock(registry_mutex());
    std::shared_ptr<NcclClique>& known = registry()[id.internal];
    if (known == nullptr) known = std::make_shared<NcclClique>(num_ranks);
    clique = known;
  }
  if (clique->size != num_ranks) {
    return refuse(ncclInvalidArgument, std::to_string(num_ranks) + " ranks where others say " +
                                           std::to_string(clique->size));
  }
  auto made = std::make_unique<NcclComm>(clique, rank, device);
  made->blocking = config == nullptr || config->blocking != 0;
  return made.release()->come(comm);
}

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
  comm->drain();
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->abort();
  comm->drain();
  delete comm;
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
    std::vector<Call> own;
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
  return add(comm, {Kind::kAllReduce, send, recv, count, type, op}, stream);
}
ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return add(comm, {Kind::kReduceScatter, send, recv, recv_count, type, op}, stream);
}
ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::kAllGather, send, recv, send_count, type}, stream);
}
ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::kBroadcast, send, recv, count, type, ncclSum, root}, stream);
}
ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return add(comm, {Kind::kSend, send, nullptr, count, type, ncclSum, peer}, stream);
}
ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, {Kind::kRecv, nullptr, recv, count, type, ncclSum, peer}, stream);
}

void plant_nccl_fault(int device, NcclFault fault, int number) {
  const std::lock_guard lock(planted_mutex());
  planted() = {device, fault, number};
}
void nccl_heals() {
  const std::lock_guard lock(planted_mutex());
  planted() = {};
}

}  // namespace tessera::emulation
