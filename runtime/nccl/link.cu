#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "runtime/nccl/link.h"

namespace tessera::nccl::TSR_CUDA {

namespace {

/// How long others have to say which rank has died, once NCCL tells that some peer is gone.
constexpr std::chrono::milliseconds kGrace{500};

std::string text_of(ncclResult_t result, ncclComm_t comm, const char* call) {
  std::string text = std::string(call) + ": " + ncclGetErrorString(result);
  const char* const more = ncclGetLastError(comm);
  if (more != nullptr && *more != '\0') text += std::string(": ") + more;
  return text;
}

}  // namespace

void check(ncclResult_t result, ncclComm_t comm, const char* call) {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const std::string text = text_of(result, comm, call);
  if (text.find("Duplicate GPU") != std::string::npos) {
    throw Error(failed_precondition(
        text + "; NCCL takes one rank a card: give each rank its own, or use the threads backend"));
  }
  throw Error(internal_error(text));
}

Link::Link(CudaDevice& device, const OwnHandles& given)
    : device_(device),
      stream_(given.stream == nullptr ? CudaStream(device) : CudaStream(given.stream)),
      is_ours_(given.comm == nullptr),
      comm_(given.comm),
      has_begun_(!is_ours_),
      is_ready_(!is_ours_) {}

// What a user's communicator was given reads arrays that may go when this is gone.
Link::~Link() {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr && revoked_ == nullptr) return;
  Current current(device_);
  if (revoked_ != nullptr) {
    static_cast<void>(ncclCommAbort(revoked_));
  } else if (is_ours_) {
    static_cast<void>(ncclCommDestroy(comm_));
  } else {
    static_cast<void>(cudaStreamSynchronize(stream_.handle()));
  }
}

std::string Link::new_id() {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
  return std::string(id.internal, sizeof id.internal);
}

void Link::connect(const std::string& id, int rank, int size) {
  ncclUniqueId where;
  std::memcpy(where.internal, id.data(), sizeof where.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Current current(device_);
  const std::lock_guard lock(mutex_);
  has_begun_ = true;
  check(ncclCommInitRankConfig(&comm_, size, where, rank, &config), comm_,
        "ncclCommInitRankConfig");
}

bool Link::is_ready() {
  if (!is_ready_) is_ready_ = is_settled("ncclCommInitRankConfig");
  return is_ready_;
}

bool Link::is_settled(const char* call) {
  const std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return false;
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), comm_, "ncclCommGetAsyncError");
  if (state == ncclInProgress) return false;
  if (state == ncclRemoteError) {
    if (!is_lost_for_long()) return false;
    throw Error(unavailable(text_of(state, comm_, call)));
  }
  check(state, comm_, call);
  return true;
}

// A user's communicator may block until all ranks have come: abort() must not wait for that.
void Link::use(const std::function<void(ncclComm_t)>& f) {
  Current current(device_);
  std::unique_lock lock(mutex_);
  if (aborted_) throw Error(unavailable("this communicator of NCCL was aborted"));
  is_used_ = true;
  const ncclComm_t comm = comm_;
  if (!is_ours_) lock.unlock();
  f(comm);
}

void Link::give(const std::function<void(ncclComm_t)>& f) {
  Current current(device_);
  std::unique_lock lock(mutex_);
  if (aborted_) throw Error(unavailable("this communicator of NCCL was aborted"));
  check(ncclGroupStart(), comm_, "ncclGroupStart");
  f(comm_);
  ncclResult_t state = ncclGroupEnd();
  check(state, comm_, "ncclGroupEnd");
  // A thread of NCCL's own may give the stream the work: what is captured next comes after it.
  while (state == ncclInProgress && device_.is_capturing() && !aborted_) {
    check(ncclCommGetAsyncError(comm_, &state), comm_, "ncclCommGetAsyncError");
    check(state, comm_, "ncclGroupEnd");
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void Link::note_call(std::string text, RankClock::time_point limit) {
  const Mark done = device_.record(stream_);
  const std::lock_guard lock(mutex_);
  given_.push_back({done, std::move(text), limit});
}

bool Link::is_lost_for_long() {
  const RankClock::time_point now = RankClock::now();
  if (!lost_since_) lost_since_ = now;
  return now >= *lost_since_ + kGrace;
}

void Link::drop_done() {
  while (!given_.empty() && device_.done(given_.front().done)) given_.pop_front();
}

bool Link::is_done() {
  const std::lock_guard lock(mutex_);
  drop_done();
  return given_.empty();
}

Status Link::look(const std::string& replay) {
  const std::lock_guard lock(mutex_);
  if (aborted_ || comm_ == nullptr) return absl::OkStatus();
  ncclResult_t state = ncclSuccess;
  if (ncclCommGetAsyncError(comm_, &state) != ncclSuccess) return absl::OkStatus();
  drop_done();
  if (given_.empty() && replay.empty()) return absl::OkStatus();
  if (state == ncclRemoteError && !is_lost_for_long()) return absl::OkStatus();
  if (state != ncclSuccess && state != ncclInProgress) {
    return unavailable(text_of(state, comm_, "NCCL") + ", in " +
                       (given_.empty() ? replay : given_.front().text));
  }
  if (given_.empty() || RankClock::now() < given_.front().limit) return absl::OkStatus();
  const Given& first = given_.front();
  return absl::DeadlineExceededError(
      to_absl("timed out in " + first.text + ": all arrived, NCCL has not moved all data"));
}

// NCCL returns once the graphs that hold calls of this communicator are gone, which the rank sees
// to: it must not wait for the lock meanwhile.
void Link::abort() noexcept {
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    given_.clear();
    comm = std::exchange(comm_, nullptr);
    if (is_ours_ && is_used_) revoked_ = comm;
  }
  if (comm == nullptr) return;
  const bool ends = is_ours_ && !is_used_;
  static_cast<void>(ends ? ncclCommAbort(comm) : ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
}

}  // namespace tessera::nccl::TSR_CUDA
