// runtime/mpi/peer_movement.h: rows between the buffers of processes of one host, by reading alone:
// what a peer puts into this rank's buffer is found in the peer's list and read from its tokens.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/mpi/movement.h"

namespace tessera {

/// A rank offers its arrays to all others, reads theirs, and thanks them. What does not lie in its
/// segment goes to each as messages.
class PeerMovement final : public Movement {
 public:
  PeerMovement(const MovementPlace& place, const CollectiveCall& call)
      : place_(place), call_(call) {}

  void begin() override;
  bool advance() override;
  void abandon() noexcept override { messages_.abandon(); }

 private:
  /// Arrays that others read: the buffer; of kPut the tokens, the weights and the places.
  static constexpr std::size_t kMostArrays = 3;
  struct Offer {
    std::int64_t rows = 0;  ///< of the buffer, or tokens
    Notice arrays[kMostArrays] = {};
  };
  struct Peer {
    Offer offer;  ///< its
    const std::byte* arrays[kMostArrays] = {};
    std::vector<Array> landed;
  };
  enum class Phase : std::uint8_t { kOffering, kFetching, kThanking };

  std::vector<const Array*> given() const;
  void fetch();
  void move();
  void thank();
  bool is_own(int peer) const { return peer == place_.group.rank; }

  MovementPlace place_;
  const CollectiveCall& call_;
  Messages messages_;
  Phase phase_ = Phase::kOffering;
  std::vector<const Array*> arrays_;  ///< that this rank gives
  Offer own_;
  std::vector<Peer> peers_;  ///< by group rank
};

}  // namespace tessera
