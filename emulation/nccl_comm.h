// emulation/nccl_comm.h: what nccl.h's calls work on. Vocabulary: a communicator's ranks share a
// clique, of which each process that has some of them has its own; a meeting is one collective of
// it in flight, a letter one message. What ranks of other processes post and send lies here as if
// they were threads, with data of its own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulation/nccl.h"

namespace tessera::emulation {

struct NcclSlip;
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
  std::vector<NcclCall> calls;              ///< by rank
  std::map<int, std::vector<char>> copies;  ///< what ranks of other processes send
  std::vector<char> result;                 ///< of an all_reduce, which may be in place
  std::set<int> posted;
  int num_done = 0;  ///< of this process
  void post(int rank, int size, const NcclCall& call);
};
/// A message in flight.
struct NcclLetter {
  NcclCall call;
  std::vector<char> copy;    ///< from another process
  std::uint64_t number = 0;  ///< to or from another process
  bool taken = false;
};
/// Where a rank is.
struct NcclSeat {
  std::string process;  ///< empty: this one
  int device = 0;
};
struct NcclRefusal {
  ncclResult_t result = ncclSuccess;
  std::string text;
};
class NcclMemory;
/// What a rank brings to a window.
struct NcclWindowPart {
  std::shared_ptr<NcclMemory> memory;  ///< null: it could not be mapped
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};
/// A window that ranks have, or are about to have.
struct NcclRegistration {
  std::map<int, NcclWindowPart> parts;  ///< by rank; guarded by the clique's mutex, till all came
  /// Once all have come.
  NcclRefusal refusal() const;
};
struct NcclWindow {
  std::shared_ptr<const NcclRegistration> of;
};

/// What a communicator's ranks share.
struct NcclClique {
  NcclClique(std::string id, std::string maker, int num_ranks)
      : id(std::move(id)), maker(std::move(maker)), size(num_ranks) {}
  const std::string id;     ///< empty: of a split
  const std::string maker;  ///< the process where ranks say that they are there; empty: this one
  const int size;
  std::mutex mutex;  ///< of all below
  std::condition_variable changed;
  std::map<int, NcclSeat> seats;        ///< by rank; where the maker is another, of all at once
  std::map<int, NcclRefusal> refusals;  ///< by rank
  std::set<std::string> lost;           ///< processes that have ended
  std::set<int> gone;                   ///< ranks here whose calls were broken off
  int num_reading = 0;                  ///< ranks here that read others' memory
  std::map<std::size_t, NcclMeeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<NcclLetter>>> letters;  ///< by from, to
  std::map<std::uint64_t, std::shared_ptr<NcclLetter>> sent_far;                   ///< not taken
  std::uint64_t num_sent_far = 0;
  /// Of splits, by their number.
  struct Split {
    std::vector<std::pair<int, int>> colors_and_keys;
    int num_came = 0;
    std::map<int, std::shared_ptr<NcclClique>> made;
  };
  std::map<std::size_t, Split> splits;
  std::map<std::size_t, std::shared_ptr<NcclRegistration>> registrations;  ///< not all came

  // Under mutex.
  bool is_whole() const { return static_cast<int>(seats.size()) == size; }
  int num_here() const;
  /// Other processes that have ranks of it.
  std::set<std::string> others() const;
  bool is_lost(int rank) const;
  /// Gives a rank its place, or says why not.
  NcclRefusal seat(int rank, const NcclSeat& seat);
  /// As many consecutive ranks as every host has; 1 where they lie otherwise.
  int ranks_a_host();
  /// A rank's part of its `number`-th registration.
  std::shared_ptr<NcclRegistration> bring(std::size_t number, int rank, NcclWindowPart part);
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
  /// Where it was refused, ncclGetLastError() says why.
  ncclResult_t state();
  void abort();
  bool is_revoked() const { return aborted_; }
  /// Until the stream has no more work of this communicator.
  void drain();
  /// And until the graphs that hold some of it are gone.
  void drain_graphs();
  ncclResult_t split(int color, int key, bool blocks, ncclComm_t* made);
  ncclResult_t submit(std::vector<NcclCall> calls, cudaStream_t stream);
  ncclResult_t register_window(void* memory, std::size_t bytes, ncclWindow_t* made);
  ncclResult_t drop_window(ncclWindow_t window);
  /// A window is asked for and not there yet.
  bool registers();
  std::size_t next_split = 0;
  bool blocking = true;

 private:
  void run(std::vector<NcclCall>& calls);
  /// Nobody reads this rank's memory any more.
  void withdraw();
  void run_collective(const NcclCall& call);
  std::shared_ptr<NcclLetter> send(const NcclCall& call);
  bool receive(const NcclCall& call);
  void tell(const std::string& process, const NcclSlip& slip, std::size_t num_bytes,
            const void* bytes);
  void post_to_others(std::size_t number, const NcclCall& call);
  /// Until `ready`. Where a rank is `missing` that never comes the communicator has failed, and
  /// waits on for its end. False where that has come.
  template <class Ready, class Missing>
  bool wait(std::unique_lock<std::mutex>& lock, const Ready& ready, const Missing& missing) {
    clique_->changed.wait(lock, [&] {
      if (aborted_ || ready()) return true;
      if (!clique_->lost.empty() && missing()) failed_ = true;
      return false;
    });
    return !aborted_;
  }
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, const Ready& ready) {
    return wait(lock, ready, [] { return false; });
  }
  void read(const NcclCall& own, NcclMeeting& meeting);
  ncclResult_t registration_state();  // under the clique's mutex

  std::shared_ptr<NcclClique> clique_;
  int rank_, device_;
  std::atomic<bool> aborted_{false};
  std::atomic<bool> failed_{false};
  std::size_t next_meeting_ = 0;  ///< of the stream's thread
  int under_way_ = 0;             ///< guarded by the clique's mutex
  int in_graphs_ = 0;             ///< likewise: calls that graphs hold
  cudaStream_t stream_ = nullptr;
  std::size_t next_registration_ = 0;
  // Guarded by the clique's mutex.
  ncclWindow_t* awaited_ = nullptr;                 ///< where the window goes, until it is there
  std::shared_ptr<NcclRegistration> registration_;  ///< that one
  std::vector<std::unique_ptr<NcclWindow>> windows_;
};

/// The clique of an id, made where there is none of it yet.
std::shared_ptr<NcclClique> clique_of(const std::string& id, int num_ranks);
/// An id that other processes can meet by.
std::string new_clique_id();

/// Keeps why this thread's call is refused, for ncclGetLastError().
ncclResult_t refuse(ncclResult_t result, std::string text);
const std::string& last_refusal();

}  // namespace tessera::emulation
