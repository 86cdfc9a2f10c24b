// runtime/mpi/movement.h: how one call's data move between processes, as steps that never block.
// Folds go in order of group rank, as on the threads backend, so both give the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/call/communicator.h"
#include "runtime/call/signature.h"
#include "runtime/mpi/host_memory.h"
#include "runtime/mpi/link.h"

namespace tessera {

class DeviceSide;

/// What a movement needs to know of its call.
struct MovementPlace {
  const MpiLink* link = nullptr;
  const HostMemory* host = nullptr;
  std::span<const std::int64_t> ranks;  ///< the group's ranks in the link's communicator
  GroupPlace group;
  std::uint32_t group_id = 0;
  std::uint64_t sequence = 0;
  std::shared_ptr<Allocator> allocator;  ///< of the host's buffers to receive into
  DeviceSide* device = nullptr;          ///< of arrays on a device; null: they lie on the host

  std::int64_t rank_of(int group_rank) const { return ranks[static_cast<std::size_t>(group_rank)]; }
  Messages::Address at(int group_rank, MessagePart part) const {
    return {rank_of(group_rank), MpiLink::tag(group_id, sequence, part)};
  }
  /// Whether so many bytes between this rank and a peer are read from the sender's array: then the
  /// sender says where they are, and the reader when it has done. Both sides decide alike.
  bool reads_in_place(int peer, std::int64_t bytes) const {
    return bytes >= kInPlaceBytes && host->is_near(rank_of(peer));
  }
  /// More than what an all_reduce folds whole on every rank: a rank that folds into its operand may
  /// not be read meanwhile.
  static constexpr std::int64_t kInPlaceBytes = kFoldAllBytes + 1;
};

/// One prepared call's data under way.
class Movement {
 public:
  virtual ~Movement() = default;
  /// Posts the first messages.
  virtual void begin() = 0;
  /// Goes on as far as it can without waiting; true when all is done. Throws Error.
  virtual bool advance() = 0;
  virtual void abandon() noexcept = 0;
  /// Grows with every message of several: who waits looks again soon after one.
  virtual std::int64_t progress() const noexcept { return 0; }
};

/// `call` and `signature` outlive the movement.
std::unique_ptr<Movement> make_movement(const MovementPlace& place, const CollectiveCall& call,
                                        const Signature& signature);

/// What a rank tells a near one of bytes that it gives.
struct Notice {
  std::int64_t offset = 0;  ///< in the giver's segment, or kNotInPlace
  std::int64_t bytes = 0;
};
/// They do not lie where others can read them, and come as messages.
constexpr std::int64_t kNotInPlace = -1;

/// A peer sends other bytes than this rank expects.
[[noreturn]] void throw_different(const MovementPlace& place, int peer, std::int64_t sent_bytes,
                                  std::int64_t expected_bytes);
/// The bytes that a peer's notice is about. Throws FailedPrecondition where it is about another
/// number of bytes, or they cannot be there.
const std::byte* bytes_in_place(const MovementPlace& place, int peer, const Notice& notice,
                                std::int64_t expected_bytes);

}  // namespace tessera
