// runtime/world.h: this rank's view of all ranks: rank, size, groups, event log; and ranks as
// threads. A World belongs to one rank; groups are made once per set of ranks and cached.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/mesh.h"
#include "runtime/call/communicator.h"
#include "runtime/call/event.h"
#include "runtime/plan/execute.h"

namespace tessera TSR_API {

/// Whether ranks compare their calls' signatures before data move. Threads always do; on MPI it
/// costs one round trip.
enum class CallChecks : std::uint8_t { kOff, kOn };

/// Who forms the sums of reductions, on backends whose library can. kOrdered: a fold in order of
/// group rank, with the same bits on every backend and run. kNative: the library, in an order of
/// its own, where it has the dtype and the kind (NCCL: sums, products and averages); the call's
/// event says so, and bits may differ.
enum class ReduceBy : std::uint8_t { kOrdered, kNative };

struct WorldOptions {
  std::chrono::milliseconds timeout{60'000};
  /// Library threads of each rank; 0: cores / ranks, at least 1.
  int threads_per_rank = 0;
  CallChecks checks = CallChecks::kOff;
  ReduceBy reduce = ReduceBy::kOrdered;
  /// Folder of the flight records, one file a rank, kept after the run. Empty: a folder below
  /// $TESSERA_RECORDER_DIR or the system's folder for temporary files, removed unless a rank fails.
  std::string recorder_dir = {};
  /// Asked by each rank once for what its arrays come from. None: a pool, which on MPI lies where
  /// other ranks of its host can read it.
  std::function<std::shared_ptr<Allocator>(std::int64_t rank)> allocator = nullptr;
};

/// Orders lists of ranks; lookups need no list of their own.
struct RanksLess {
  using is_transparent = void;
  bool operator()(std::span<const std::int64_t> a, std::span<const std::int64_t> b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

/// The calls of one rank that its device's captured work holds, where each rank captures its own
/// (WorldCapture). While it lives the rank's captured work may be launched; it goes after that
/// work, and before its World.
class RankCapture {
 public:
  virtual ~RankCapture() = default;
  /// No more calls follow, and none is in flight.
  virtual void close() = 0;
  /// Whether ranks compare their calls, and so their launches.
  virtual bool compares() const noexcept = 0;
  /// The compute stream was given the work once more.
  virtual void note_launch() = 0;
};

class World {
 public:
  virtual ~World() = default;
  virtual std::int64_t rank() const noexcept = 0;
  virtual std::int64_t size() const noexcept = 0;
  virtual int threads_per_rank() const noexcept = 0;
  /// The group of these world ranks (ascending or not: group rank = position). The same object for
  /// the same list. Every listed rank asks for it before using it; asking does not communicate.
  /// Errors: InvalidArgument for a repeated rank, one outside the world, or where this rank is not
  /// listed.
  virtual StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) = 0;
  /// Groups along mesh axes: one axis, or several together (row-major over the listed axes).
  StatusOr<Communicator*> group_along(const Mesh& mesh, std::span<const int> axes);
  /// Each rank's mark, in order of ranks: for devices of one process. Collective: yes. Errors:
  /// Unimplemented where ranks are processes or their arrays lie on the host; those of barrier().
  virtual StatusOr<std::vector<Mark>> share_marks(const Mark& own);
  /// Waits for the calls of this rank that are in flight, whoever has dropped them.
  virtual void finish_calls() {}
  /// From now on this rank's calls belong to the capture of its device, which is about to begin.
  /// Null: ranks capture together, by share_marks().
  virtual std::shared_ptr<RankCapture> capture_calls() { return nullptr; }
  /// A failure of this rank: every group it belongs to is poisoned, others get Unavailable with
  /// this text.
  virtual void poison(const Status& status) = 0;
  /// The job's failure as far as this rank has heard of one, as poisoned calls throw it; never
  /// blocks. After one, arrays that a device was to get may hold anything.
  virtual Status failure() const { return absl::OkStatus(); }
  /// Since rank 0's World was made: comparable across ranks (on MPI over several hosts as far as
  /// round trips tell).
  virtual double now_us() const = 0;
  EventLog& events() noexcept { return events_; }
  /// Folder of this job's flight records; empty where they are in memory only.
  const std::string& recorder_dir() const noexcept { return recorder_dir_; }
  /// What this rank's arrays come from: memory of its device.
  const std::shared_ptr<Allocator>& allocator() const noexcept { return allocator_; }
  /// Whose kernels this rank's ops and moves run: the device of its arrays, unless its maker says
  /// another one with the same memory (SimOptions::device).
  Device& device() const noexcept { return device_ ? *device_ : allocator_->device(); }
  /// The same in the host's memory, for counts and texts: the one of arrays where they lie there.
  const std::shared_ptr<Allocator>& host_allocator();

 protected:
  /// What group() refuses.
  Status check_group(std::span<const std::int64_t> ranks) const;

  std::shared_ptr<Allocator> allocator_ = make_pool_allocator();
  Device* device_ = nullptr;  ///< null: the allocator's
  std::string recorder_dir_;

 private:
  std::shared_ptr<Allocator> host_allocator_;  // null until asked for
  EventLog events_;
};

/// The group of all ranks, in order. Throws what World::group() returns.
Communicator& everyone(World& world);

/// What an exception that ended a rank says: an Error's own Status, else Internal.
Status status_of(const std::exception_ptr& thrown);
/// Library threads of each of `num_ranks` ranks that share this machine; `asked` if that is not 0.
int library_threads(int asked, int num_ranks);

/// A world of one rank without threads.
std::unique_ptr<World> make_single_world(const WorldOptions& options = {});

/// Runs `body` on `num_ranks` threads, each with its World, and joins them. A rank that throws
/// poisons the others. Returns the first error (the one that started it, "rank 3: …"), or OK.
Status run_ranks(int num_ranks, const WorldOptions& options,
                 const std::function<void(World&)>& body);

}  // namespace tessera
