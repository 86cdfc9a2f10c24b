// emulation/nccl_comm.h: what nccl.h's calls work on. Vocabulary: a communicator's ranks share a
// clique; a meeting is one collective of it in flight, a letter one message.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulation/nccl.h"

namespace tessera::emulation {

enum class NcclKind { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kSend, kRecv };

struct NcclCall {
  NcclKind kind = NcclKind::kAllReduce;
  const void* send = nullptr;
  void* recv = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int peer = 0;  ///< or root
  bool is_pair() const { return kind == NcclKind::kSend || kind == NcclKind::kRecv; }
  bool agrees_with(const NcclCall& other) const {
    return kind == other.kind && count == other.count && type == other.type && op == other.op &&
           peer == other.peer;
  }
};

/// One collective in flight.
struct NcclMeeting {
  std::vector<NcclCall> calls;  ///< by rank
  std::vector<char> result;     ///< of an all_reduce, which may be in place
  int num_posted = 0;
  int num_done = 0;
};
/// A message in flight.
struct NcclLetter {
  NcclCall call;
  bool taken = false;
};

/// What a communicator's ranks share.
struct NcclClique {
  explicit NcclClique(int num_ranks) : size(num_ranks) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, int> devices;  ///< by rank, of those that came
  std::map<std::size_t, NcclMeeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<NcclLetter>>> letters;  ///< by from, to
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
  ncclResult_t submit(std::vector<NcclCall> calls, cudaStream_t stream);
  std::size_t next_split = 0;
  bool blocking = true;

 private:
  void run(std::vector<NcclCall>& calls);
  void run_collective(const NcclCall& call);
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    clique_->changed.wait(lock, [&] { return aborted_ || ready(); });
    return !aborted_;
  }
  void read(const NcclCall& own, NcclMeeting& meeting);

  std::shared_ptr<NcclClique> clique_;
  int rank_, device_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failed_{false};
  std::size_t next_meeting_ = 0;  ///< of the stream's thread
  int under_way_ = 0;             ///< guarded by the clique's mutex
  cudaStream_t stream_ = nullptr;
};

/// Keeps why this thread's call is refused, for ncclGetLastError().
ncclResult_t refuse(ncclResult_t result, std::string text);
const std::string& last_refusal();

}  // namespace tessera::emulation
