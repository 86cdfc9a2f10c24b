// runtime/nccl/link.h: one communicator of NCCL, with a stream of its own: calls of two groups may
// come in another order on another rank, and would wait for one another on one stream.
#pragma once

#include <nccl.h>

#include <atomic>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cuda_device.h"
#include "placement/status.h"
#include "runtime/environment.h"

namespace tessera::nccl::TSR_CUDA {

using kernels::TSR_CUDA::CudaDevice;
using kernels::TSR_CUDA::CudaStream;
using kernels::TSR_CUDA::Current;

/// What a user has of NCCL already, see NcclHandles; null: not given.
struct OwnHandles {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
};

/// Thread-safety: its rank's thread, but for what says "any thread".
class Link {
 public:
  explicit Link(CudaDevice& device, const OwnHandles& given = {});
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  /// Waits for what was given, unless it was aborted.
  ~Link();

  CudaStream& stream() noexcept { return stream_; }
  bool has_begun() const noexcept { return has_begun_; }
  /// Meets the other ranks by what rank 0 of them got from new_id(). Does not wait for them.
  void connect(const std::string& id, int rank, int size);
  static std::string new_id();
  /// Whether all ranks are there. Throws what NCCL refuses.
  bool is_ready();
  /// f(communicator), between ncclGroupStart() and ncclGroupEnd(). Throws Unavailable where it was
  /// aborted, Internal for what NCCL refuses.
  void give(const std::function<void(ncclComm_t)>& f);
  /// f(communicator), outside of a group: what all ranks ask for and NCCL has once is_settled(). As
  /// long as the communicator lives its memory may be used: abort() leaves its end to the end of
  /// this. Throws as give().
  void use(const std::function<void(ncclComm_t)>& f);
  /// Throws what NCCL refuses, as an error of `call`.
  bool is_settled(const char* call);
  /// What was given so far belongs to a call, which is to be done by `limit`.
  void note_call(std::string text, RankClock::time_point limit);

  /// Any thread. Whether the device has done all calls noted.
  bool is_done();
  /// Any thread. What is wrong: an error that NCCL tells of, or a call past its time. `replay`:
  /// what is in flight beside the calls given, of captured work; empty where nothing is.
  Status look(const std::string& replay);
  /// Any thread. Ends what was given, whatever the peers do. Later calls throw.
  void abort() noexcept;

 private:
  struct Given {
    Mark done;
    std::string text;
    RankClock::time_point limit;
  };
  /// Under mutex_.
  void drop_done();
  /// Under mutex_. NCCL tells that a peer is gone, and nobody has said who for a while.
  bool is_lost_for_long();

  CudaDevice& device_;
  CudaStream stream_;
  const bool is_ours_;  ///< the communicator
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;                        // under mutex_
  bool aborted_ = false;                             // under mutex_
  std::deque<Given> given_;                          // under mutex_; not yet seen to be done
  std::optional<RankClock::time_point> lost_since_;  // under mutex_
  ncclComm_t revoked_ = nullptr;                     // under mutex_; ours
  bool is_used_ = false;                             // under mutex_
  bool has_begun_ = false;
  bool is_ready_ = false;
};

/// Throws what `result` means.
void check(ncclResult_t result, ncclComm_t comm, const char* call);

}  // namespace tessera::nccl::TSR_CUDA
