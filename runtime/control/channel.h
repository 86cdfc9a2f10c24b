// runtime/control/channel.h: a second way between the processes of a job, beside the data: who
// failed, who died, who has left, who waits for what. MPI never tells survivors of a dead peer; a
// closed socket does. Vocabulary: a lane is an ordered sequence of calls among some ranks (the
// collectives of a group, or the messages of one ordered pair); rank 0's end is the hub.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

struct ControlOptions {
  /// Address that this rank listens on. The loopback, unless ranks are in different networks, which
  /// the kernels tell, not the hosts' names: then what the host's name stands for, or the first
  /// interface.
  std::string host = {};
  int port = 0;  ///< of rank 0; 0: any free one
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds stranger_limit{1'000};  ///< by when a connection has proved itself
  /// The job's token, where all ranks have it already; else rank 0 chooses one and the exchange of
  /// texts carries it.
  std::optional<std::array<std::uint8_t, 16>> token = {};
};

struct ControlPlace {
  std::int64_t rank = 0;
  std::int64_t size = 1;
};

struct LaneKey {
  std::uint32_t group = 0;          ///< as group_id() says
  std::int32_t from = -1, to = -1;  ///< group ranks of a pair; -1 for collectives
  auto operator<=>(const LaneKey&) const = default;
};

/// What a rank waits for, and for whom.
struct ControlWait {
  LaneKey lane;
  std::uint64_t sequence = 0;
  std::vector<std::int64_t> parties;  ///< world ranks that must join this call, own one included
  std::string text;                   ///< the call, for messages
};

/// Where another rank stands with a call.
struct PartyState {
  enum class Kind : std::uint8_t { kArrived, kNotArrived, kSilent };
  std::int64_t rank = 0;
  Kind kind = Kind::kSilent;  ///< kSilent: does not answer (stopped, or unreachable)
  std::string doing;          ///< what it waits in, or "runs"
};

/// Gives every rank's text to every rank, by rank. Collective; how the ends of a channel find one
/// another.
using ExchangeTexts = std::function<std::vector<std::string>(const std::string& own)>;

/// The first rank's error, "rank 3: …", as `kind` (io_error, …) makes it; the same on all ranks. OK
/// where none has one. Collective: yes.
Status first_error_as(Status (*kind)(std::string_view text), const ExchangeTexts& exchange,
                      const Status& own);

/// Thread-safety: its rank's thread only, unless said otherwise. A background thread, which sleeps
/// in poll(), serves the sockets; it never calls MPI.
class ControlChannel {
 public:
  /// Collective: yes, over all ranks; fails on all alike. Errors: Unavailable naming the rank, the
  /// address and what the system said, for a port that is taken or a rank that cannot be reached.
  static StatusOr<std::unique_ptr<ControlChannel>> open(const ControlPlace& place,
                                                        const ControlOptions& options,
                                                        const ExchangeTexts& exchange);
  /// Leaves, where this rank has not. Rank 0 calls wait_until_all_left() first: with its end the
  /// others hear no more from one another.
  virtual ~ControlChannel() = default;

  /// This rank has failed: everyone hears of it. The hub keeps the first failure it hears of; a
  /// moment is waited for its word, and where it does not answer the others are told directly.
  virtual void poison(const Status& status) = 0;
  /// Any thread. True once some rank has failed, died, or the hub is gone.
  virtual bool failed() const noexcept = 0;
  /// Any thread. The first failure with its own code, "rank 3: …"; for a death Unavailable, "rank 3
  /// died in all_to_all #812 of …", with what its flight record says (see `describe_dead`). OK
  /// while there is none.
  virtual Status first_failure() const = 0;
  /// Before any failure: tells what a dead rank was last doing; "" where unknown. Rank 0's is asked
  /// about every rank, another rank's about rank 0. Called from the background thread.
  virtual void describe_dead(std::function<std::string(std::int64_t rank)> describe) = 0;

  /// A number for these ranks, the same on all of them, unlike that of any other list. Asks the
  /// hub; waits for no other rank.
  virtual StatusOr<std::uint32_t> group_id(std::span<const std::int64_t> ranks) = 0;

  /// How many calls this rank has started in a lane: its rank stores, the background thread reads.
  /// Lives as long as the channel.
  virtual std::atomic<std::uint64_t>& started(const LaneKey& lane) = 0;

  /// This rank has waited long for `wait`: the hub looks whether any rank can go on, and where none
  /// can poisons all with FailedPrecondition "no rank can go on: rank 0 waits in …; rank 1 has
  /// returned".
  virtual void waits(ControlWait wait) = 0;
  virtual void stops_waiting() = 0;
  /// Any thread. Asks the parties where they stand (each at its own address, so a stopped hub is no
  /// hindrance).
  /// Waits at most `limit`.
  virtual std::vector<PartyState> ask(const ControlWait& wait, std::chrono::milliseconds limit) = 0;
  /// A party that has left without starting the call; nullopt while there is none.
  virtual std::optional<std::int64_t> missing_for_good(const ControlWait& wait) const = 0;

  /// This rank starts no more calls. Others that wait for one hear of it. Its later death is no
  /// failure.
  virtual void leave() = 0;
  /// Waits until every rank has left or died, at most `limit`; true if so, and where the hub has
  /// gone: nobody tells who leaves then.
  virtual bool wait_until_all_left(std::chrono::milliseconds limit) = 0;
  /// After a failure, by a rank that has left: waits for all others that can still speak, with the
  /// hub or without it, at most `limit`. A rank whose process answers nothing is given up after a
  /// second; one that answers is waited for, however long its own thread takes. True if all have
  /// left or died.
  virtual bool farewell(std::chrono::milliseconds limit) = 0;
  /// Sleeps until something is heard, at most `limit`.
  virtual void sleep(std::chrono::microseconds limit) = 0;
};

}  // namespace tessera
