// A communicator's ranks share a clique. Each call of a rank is work of its stream's thread: it
// posts where its data lie, waits until all peers have posted theirs, reads what it needs from
// their memory, and waits until nobody reads its own any more. Calls get their numbers when the
// stream comes to them, so that a captured graph may do them again. To other processes a rank sends
// its call with a copy of what they need (nccl_cliques.cc).
#include "emulation/nccl_comm.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulation/nccl_cliques.h"

namespace tessera::emulation {
namespace {

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

std::string& last_error() {
  thread_local std::string text;
  return text;
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
void fold_elements(const std::vector<const char*>& from, char* to, const NcclCall& call,
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
void fold_plain(const std::vector<const char*>& from, char* to, const NcclCall& call) {
  const auto load = [](const char* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto store = [](char* at, T value) { std::memcpy(at, &value, sizeof value); };
  fold_elements<T>(from, to, call, load, store);
}

void fold(const std::vector<const char*>& from, char* to, const NcclCall& call) {
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

/// Work of a stream, as long as it may still be done: a device that has failed does nothing more.
class UnderWay {
 public:
  /// `number` is guarded by the clique's mutex.
  UnderWay(std::shared_ptr<NcclClique> clique, int& number)
      : clique_(std::move(clique)), number_(number) {
    const std::lock_guard lock(clique_->mutex);
    ++number_;
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    const std::lock_guard lock(clique_->mutex);
    --number_;
    clique_->changed.notify_all();
  }

 private:
  std::shared_ptr<NcclClique> clique_;
  int& number_;
};

}  // namespace

ncclResult_t refuse(ncclResult_t result, std::string text) {
  last_error() = std::move(text);
  return result;
}

const std::string& last_refusal() { return last_error(); }

// ---- NcclComm

ncclResult_t NcclComm::come(ncclComm_t* made) {
  std::unique_ptr<NcclComm> own(this);
  const NcclRefusal refusal = take_seat(*clique_, rank_, device_);
  if (refusal.result != ncclSuccess) return refuse(refusal.result, refusal.text);
  *made = own.release();
  if (!blocking) return ncclInProgress;
  std::unique_lock lock(clique_->mutex);
  wait(lock, [&] { return clique_->is_whole() || clique_->refusals.contains(rank_); });
  lock.unlock();
  return state();
}

bool NcclComm::is_whole() {
  const std::lock_guard lock(clique_->mutex);
  return clique_->is_whole();
}

ncclResult_t NcclComm::state() {
  if (failed_) return ncclRemoteError;
  const std::lock_guard lock(clique_->mutex);
  if (const auto at = clique_->refusals.find(rank_); at != clique_->refusals.end()) {
    return refuse(at->second.result, at->second.text);
  }
  if (clique_->is_whole()) return registration_state();
  return clique_->lost.contains(clique_->maker) ? ncclRemoteError : ncclInProgress;
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

void NcclComm::drain_graphs() {
  std::unique_lock lock(clique_->mutex);
  clique_->changed.wait(lock, [&] { return under_way_ == 0 && in_graphs_ == 0; });
}

ncclResult_t NcclComm::submit(std::vector<NcclCall> calls, cudaStream_t stream) {
  if (stream_ != nullptr && stream != stream_) {
    return refuse(ncclInvalidUsage, "calls of one communicator on two streams");
  }
  stream_ = stream;
  // Work that is captured is done when its graph is, as often as that is launched.
  cudaStreamCaptureStatus capturing{};
  const bool counts = cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
                      capturing == cudaStreamCaptureStatusNone;
  // Where a graph holds the call, as long as the last that does.
  const auto counted = std::make_shared<UnderWay>(clique_, counts ? under_way_ : in_graphs_);
  const cudaError_t error = call_on(stream, [this, counted, calls = std::move(calls)] {
    std::vector<NcclCall> own = calls;
    if (!aborted_) run(own);
    if (aborted_) withdraw();
  });
  return error == cudaSuccess ? ncclSuccess
                              : refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

void NcclComm::withdraw() {
  std::unique_lock lock(clique_->mutex);
  clique_->gone.insert(rank_);
  for (auto& [from_to, letters] : clique_->letters) {
    if (from_to.first == rank_) letters.clear();
  }
  clique_->changed.wait(lock, [&] { return clique_->num_reading == 0; });
}

void NcclComm::run(std::vector<NcclCall>& calls) {
  NcclFault fault{};
  if (meets_fault(device_, fault)) {
    if (fault == NcclFault::kOtherCount) {
      for (NcclCall& call : calls) call.count -= std::min<std::size_t>(call.count, 1);
    } else {
      failed_ = fault == NcclFault::kFails;
      std::unique_lock lock(clique_->mutex);
      wait(lock, [] { return false; });
      return;
    }
  }
  // Messages first, all at once: what a rank sends may be what its peer waits for before it sends.
  std::vector<std::shared_ptr<NcclLetter>> sent;
  for (const NcclCall& call : calls) {
    if (call.kind == NcclKind::kSend) sent.push_back(send(call));
  }
  for (const NcclCall& call : calls) {
    if (!call.is_pair()) run_collective(call);
  }
  for (const NcclCall& call : calls) {
    if (call.kind == NcclKind::kRecv && !receive(call)) return;
  }
  std::unique_lock lock(clique_->mutex);
  wait(
      lock,
      [&] { return std::all_of(sent.begin(), sent.end(), [](auto& each) { return each->taken; }); },
      [&] {
        return std::any_of(sent.begin(), sent.end(), [&](auto& each) {
          return !each->taken && clique_->is_lost(each->call.peer);
        });
      });
}

void NcclComm::tell(const std::string& process, const NcclSlip& slip, std::size_t num_bytes,
                    const void* bytes) {
  if (NcclOffice::here().send(process, slip, bytes, num_bytes, aborted_)) return;
  const std::lock_guard lock(clique_->mutex);
  clique_->lost.insert(process);
}

std::shared_ptr<NcclLetter> NcclComm::send(const NcclCall& call) {
  auto letter = std::make_shared<NcclLetter>(NcclLetter{.call = call});
  std::unique_lock lock(clique_->mutex);
  const std::string process = clique_->seats[call.peer].process;
  if (process.empty()) {
    clique_->letters[{rank_, call.peer}].push_back(letter);
    clique_->changed.notify_all();
    return letter;
  }
  letter->number = ++clique_->num_sent_far;
  clique_->sent_far[letter->number] = letter;
  lock.unlock();
  NcclSlip slip = slip_of(*clique_, NcclSlip::Kind::kLetter, call);
  slip.from = rank_;
  slip.to = call.peer;
  slip.number = letter->number;
  tell(process, slip, call.count * size_of(call.type), call.send);
  return letter;
}

bool NcclComm::receive(const NcclCall& call) {
  std::unique_lock lock(clique_->mutex);
  auto& waiting = clique_->letters[{call.peer, rank_}];
  const bool here = wait(
      lock,
      [&] {
        return !waiting.empty() && waiting.front()->call.count == call.count &&
               waiting.front()->call.type == call.type;
      },
      [&] { return clique_->is_lost(call.peer); });
  if (!here) return false;
  const std::shared_ptr<NcclLetter> letter = waiting.front();
  waiting.pop_front();
  const std::string process = clique_->seats[call.peer].process;
  ++clique_->num_reading;
  lock.unlock();
  copy(call.recv, letter->call.send, call.count * size_of(call.type));
  lock.lock();
  --clique_->num_reading;
  clique_->changed.notify_all();
  if (!process.empty()) {
    lock.unlock();
    NcclSlip slip = slip_of(*clique_, NcclSlip::Kind::kTaken, call);
    slip.number = letter->number;
    tell(process, slip, 0, nullptr);
    return true;
  }
  letter->taken = true;
  return true;
}

void NcclComm::post_to_others(std::size_t number, const NcclCall& call) {
  std::set<std::string> others;
  {
    const std::lock_guard lock(clique_->mutex);
    others = clique_->others();
  }
  std::size_t num_bytes = call.count * size_of(call.type);
  if (call.kind == NcclKind::kReduceScatter) num_bytes *= static_cast<std::size_t>(size());
  if (call.kind == NcclKind::kBroadcast && rank_ != call.peer) num_bytes = 0;
  NcclSlip slip = slip_of(*clique_, NcclSlip::Kind::kPost, call);
  slip.from = rank_;
  slip.number = number;
  for (const std::string& process : others) {
    tell(process, slip, num_bytes, call.send);
  }
}

void NcclComm::run_collective(const NcclCall& call) {
  const std::size_t number = next_meeting_++;
  post_to_others(number, call);
  std::unique_lock lock(clique_->mutex);
  NcclMeeting& meeting = clique_->meetings[number];
  meeting.post(rank_, size(), call);
  const auto all_agree = [&] {
    return clique_->gone.empty() && static_cast<int>(meeting.posted.size()) == size() &&
           std::all_of(meeting.calls.begin(), meeting.calls.end(),
                       [&](const NcclCall& other) { return other.agrees_with(call); });
  };
  clique_->changed.notify_all();
  const bool agreed = wait(lock, all_agree, [&] {
    for (int rank = 0; rank < size(); ++rank) {
      if (!meeting.posted.contains(rank) && clique_->is_lost(rank)) return true;
    }
    return false;
  });
  if (!agreed) return;
  if (call.kind == NcclKind::kAllReduce && meeting.result.empty()) {  // nobody has written yet
    meeting.result.resize(call.count * size_of(call.type));
    std::vector<const char*> from;
    for (const NcclCall& each : meeting.calls) from.push_back(static_cast<const char*>(each.send));
    fold(from, meeting.result.data(), call);
  }
  ++clique_->num_reading;
  lock.unlock();
  read(call, meeting);
  lock.lock();
  --clique_->num_reading;
  const int num_here = clique_->num_here();
  ++meeting.num_done;
  clique_->changed.notify_all();
  if (!wait(lock, [&] { return meeting.num_done >= num_here; })) return;
  // The last to have seen that all are done clears up.
  if (++meeting.num_done == 2 * num_here) clique_->meetings.erase(number);
}

void NcclComm::read(const NcclCall& own, NcclMeeting& meeting) {
  const std::size_t bytes = own.count * size_of(own.type);
  char* const to = static_cast<char*>(own.recv);
  const auto self = static_cast<std::size_t>(rank_);
  switch (own.kind) {
    case NcclKind::kAllReduce:
      return copy(to, meeting.result.data(), bytes);
    case NcclKind::kReduceScatter: {
      std::vector<const char*> from;
      for (const NcclCall& each : meeting.calls) {
        from.push_back(static_cast<const char*>(each.send) + self * bytes);
      }
      return fold(from, to, own);
    }
    case NcclKind::kAllGather:
      for (std::size_t i = 0; i < meeting.calls.size(); ++i) {
        copy(to + i * bytes, meeting.calls[i].send, bytes);
      }
      return;
    case NcclKind::kBroadcast:
      return copy(to, meeting.calls[static_cast<std::size_t>(own.peer)].send, bytes);
    default:
      return;
  }
}

ncclResult_t NcclComm::split(int color, int key, bool blocks, ncclComm_t* made) {
  *made = nullptr;
  const std::size_t number = next_split++;
  std::unique_lock lock(clique_->mutex);
  if (!clique_->others().empty()) {
    return refuse(ncclInvalidUsage, "the emulation splits no communicator between processes");
  }
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
  if (clique == nullptr) {
    clique = std::make_shared<NcclClique>("", "", static_cast<int>(members.size()));
  }
  const auto at = std::find_if(members.begin(), members.end(),
                               [&](const auto& member) { return member.second == rank_; });
  auto comm = std::make_unique<NcclComm>(clique, static_cast<int>(at - members.begin()), device_);
  lock.unlock();
  comm->blocking = blocks;
  return comm.release()->come(made);
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
