// runtime/call/transport.h: what a backend writes: how bytes move among its ranks, who has failed,
// how a rank waits. All else of a call (checks, signature, lanes, calls in flight, timeouts,
// events, flight record, trace) lies above it and is the same for all backends: rank_calls.h,
// transport_world.h. `examples/transport` is one from outside of this tree.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/call/pending_call.h"
#include "runtime/environment.h"

namespace tessera TSR_API {

class RankCapture;

/// A list of ranks, as one of them sees it.
struct CallGroup {
  std::vector<std::int64_t> ranks;  ///< of the world, by group rank
  int rank = 0;                     ///< this one's position

  int size() const noexcept { return static_cast<int>(ranks.size()); }
  GroupPlace place() const noexcept { return {rank, size()}; }
  std::int64_t world_rank(int group_rank) const {
    return ranks[static_cast<std::size_t>(group_rank)];
  }
};

/// One rank's end of a group, on a transport.
class TransportGroup {
 public:
  virtual ~TransportGroup() = default;
  /// `call` is prepared, and `signature` its own; signature.sequence is the call's number in its
  /// lane: the group's collectives, or the messages from this rank to signature.root (kSend), or
  /// from that rank to this one (kRecv). Calls of a lane come in this order on all its ranks. No
  /// peer hears of the call before it is begun.
  virtual std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) = 0;
  /// See Communicator::reaches_peers(): whether make_call() takes kPeerRows.
  virtual bool reaches_peers() const noexcept { return false; }
  /// See Communicator::why_unreached().
  virtual std::string why_unreached() const { return {}; }
};

/// Thread-safety: its rank's thread only.
class Transport {
 public:
  using Clock = RankClock;
  virtual ~Transport() = default;
  virtual std::int64_t rank() const noexcept = 0;
  virtual std::int64_t size() const noexcept = 0;
  /// See World::now_us().
  virtual double now_us() const = 0;

  /// `group` outlives the result. Does not communicate with other ranks of the group.
  virtual StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) = 0;
  /// What this transport cannot move of a prepared call. Errors: Unimplemented.
  virtual Status check(const CollectiveCall&) const { return absl::OkStatus(); }

  /// See World::capture_calls().
  virtual std::shared_ptr<RankCapture> capture_calls() { return nullptr; }

  // ---- failure

  /// Some rank has failed: no call goes on.
  virtual bool failed() const noexcept = 0;
  /// The first failure as another rank tells it: Unavailable, "rank 3: …". Requires failed().
  virtual Status failure() const = 0;
  /// This rank has failed: all hear of it. Only the first failure counts.
  virtual void poison(const Status& status) = 0;
  /// A call that has failed, in case that peers still touch what it holds.
  virtual void keep(std::shared_ptr<PendingCall>) {}

  // ---- waiting: begin_wait(), then until the call is over look(), all calls' advance(),
  // why_in_vain(), and where that knows nothing polls() or rest(); end_wait().

  virtual void begin_wait(PendingCall&) {}
  virtual void end_wait() noexcept {}
  /// What happens from here on ends the next rest().
  virtual void look() {}
  /// Why waiting is in vain: a failure, or a peer that has returned without joining. OK where
  /// nothing is known against it. Reads no clock unless it must.
  virtual Status why_in_vain(PendingCall&) { return failed() ? failure() : absl::OkStatus(); }
  /// Whether to look again at once: peers of one step arrive close together. Reads no clock unless
  /// it must.
  virtual bool polls(PendingCall&) { return false; }
  /// Leaves the core to others until something may have come, at most until `limit`. Not OK where
  /// no rank can go on.
  virtual Status rest(PendingCall&, Clock::time_point limit) = 0;
  /// "all_reduce #3 of …: arrived: ranks 0, 1; not arrived: rank 2", for the text of a timeout.
  virtual std::string stand_of(PendingCall& call) { return to_string(call.signature()); }
  /// Calls that one rank may have in flight; one that begins more first waits for the oldest.
  virtual std::size_t most_pending() const noexcept { return SIZE_MAX; }
};

}  // namespace tessera
