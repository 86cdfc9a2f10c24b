// runtime/mpi/exchange_movement.h: how the boxes of an exchange move: read from near ranks' arrays,
// or packed into messages whose buffers stay below the call's cap.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/mpi/packed_landing.h"

namespace tessera {

/// Each pair of ranks goes its own way: long data of a near rank are read in place, all else comes
/// in messages.
class ExchangeMovement final : public Movement {
 public:
  ExchangeMovement(const MovementPlace& place, const CollectiveCall& call)
      : place_(place),
        call_(call),
        capacity_(message_capacity(call.pack_bytes(), place.group.size)) {}

  void begin() override;
  bool advance() override;
  void abandon() noexcept override;
  std::int64_t progress() const noexcept override {
    return sent_ + (landing_ ? landing_->progress() : 0);
  }

 private:
  enum class Phase : std::uint8_t { kHearing, kLanding, kClosing };
  /// Bytes of the pair, then the offset of each of its parts' arrays in the sender's segment, or
  /// kNotInPlace.
  using Offsets = std::vector<std::int64_t>;

  /// What another rank reads here, or this one sends it message by message.
  struct Outgoing {
    Pair pair;
    Offsets offsets;
    std::optional<MessageCutter> cutter;  ///< where the data are sent
    std::optional<Packer> packer;
    Array buffer;
    Messages messages;
  };
  struct Incoming {
    Pair pair;
    Offsets offsets;                       ///< empty where messages come anyway
    std::vector<const std::byte*> arrays;  ///< of the pair's parts, where they are read in place
    std::unique_ptr<ReceivedSource> received;
    Messages messages;
  };

  void begin_incoming(Incoming& incoming);
  void begin_outgoing(Outgoing& outgoing);
  void begin_packed(Outgoing& outgoing);
  bool is_over(Outgoing& outgoing);
  bool hears(Incoming& incoming);
  void begin_landing();
  void land_in_place();
  void begin_packed_landing();
  void land_directly(std::size_t part);
  LocalSource& summands_of(int peer);
  void thank();
  /// The array that a rank's boxes are cut from; null where they come in messages.
  const std::byte* array_of(std::size_t part, std::int64_t peer) const;

  MovementPlace place_;
  const CollectiveCall& call_;
  std::int64_t capacity_;
  std::deque<Outgoing> outgoing_;
  std::deque<Incoming> incoming_;
  std::size_t heard_ = 0;   ///< so many of the incoming are known to come how
  std::int64_t sent_ = 0;   ///< messages
  std::size_t closed_ = 0;  ///< so many of the outgoing are over
  std::deque<LocalSource> summands_;
  std::optional<PackedLanding> landing_;
  Phase phase_ = Phase::kHearing;
  Messages thanks_;
};

}  // namespace tessera
