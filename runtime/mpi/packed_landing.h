// runtime/mpi/packed_landing.h: lands the boxes of an exchange where some come as packed messages,
// a message of each peer at a time. Summands fold in order of contributor, as in Landing, so the
// bits are the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/fold.h"
#include "runtime/device/packed_boxes.h"
#include "runtime/mpi/movement.h"

namespace tessera {

/// What one rank gives this one, a message at a time.
class PackedSource {
 public:
  PackedSource(Pair pair, std::int64_t capacity, const std::shared_ptr<Allocator>& allocator);
  virtual ~PackedSource() = default;
  PackedSource(const PackedSource&) = delete;
  PackedSource& operator=(const PackedSource&) = delete;

  int peer() const noexcept { return pair_.peer; }
  const std::vector<PairPart>& parts() const noexcept { return pair_.parts; }
  /// Bytes at hand, all of one slot; empty where the next message is yet to come, or none is left.
  struct AtHand {
    std::size_t slot = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  AtHand at_hand();
  /// Looks whether what at_hand() waits for has come: true unless it is still under way.
  virtual bool look() { return true; }
  /// Requires that so many are at hand.
  void consume(std::int64_t bytes) noexcept;

 protected:
  /// Fills the buffer with the message; false where it is not there yet.
  virtual bool fill(const std::vector<Stretch>& message, std::byte* buffer) = 0;

 private:
  Pair pair_;
  MessageCutter cutter_;
  Array buffer_;
  std::vector<Stretch> message_, coming_;
  std::size_t stretch_ = 0;
  std::int64_t consumed_ = 0;  ///< of the stretch
};

/// Messages of a peer.
class ReceivedSource final : public PackedSource {
 public:
  /// Expects the first message.
  ReceivedSource(const MovementPlace& place, Pair pair, std::int64_t capacity);
  bool look() override;
  void abandon() noexcept { messages_.abandon(); }

 private:
  enum class State : std::uint8_t { kIdle, kExpecting, kArrived };
  bool fill(const std::vector<Stretch>& message, std::byte* buffer) override;

  MovementPlace place_;
  Messages messages_;
  State state_ = State::kIdle;
};

/// This rank's own summands, or those of a near one, packed like the others so that all have the
/// same pieces.
class LocalSource final : public PackedSource {
 public:
  LocalSource(Pair pair, std::vector<Packer::Source> sources, std::int64_t capacity,
              const std::shared_ptr<Allocator>& allocator);

 private:
  bool fill(const std::vector<Stretch>& message, std::byte* buffer) override;

  Packer packer_;
};

class PackedLanding {
 public:
  using Sources = std::vector<PackedSource*>;
  /// `sources`: every peer that sends messages, and for parts that fold every other contributor,
  /// this rank included. They outlive this.
  PackedLanding(std::span<const ExchangePart> parts, Sources sources);
  /// As far as it goes; true when all has landed.
  bool advance();
  std::int64_t progress() const noexcept { return progress_; }

 private:
  /// Sources whose boxes of one part land on the same elements, in order of contributor. Where
  /// sources of one part cut the target differently each is a stack of its own, and they follow
  /// one another into accumulators.
  struct Stack {
    std::size_t part = 0;
    std::vector<PackedSource*> sources;
    BoxWalk target;
    std::int64_t left_bytes = 0;
  };
  struct Accumulation {
    std::size_t part = 0;
    std::vector<Stack> stacks;
    std::size_t next = 0;
    std::vector<PlacedBox> covered;  ///< the target's boxes, once
    std::vector<std::byte> accumulators;
  };

  void add_part(std::size_t p);
  void add_folded_part(std::size_t p);
  PackedSource::AtHand at_hand(PackedSource& source, std::size_t part);
  bool land(Stack& stack);
  bool fold(Stack& stack);
  bool accumulate(Accumulation& accumulation);
  void store(Accumulation& accumulation);

  std::vector<ExchangePart> parts_;
  Sources sources_;
  std::int64_t progress_ = 0;   ///< rounds in which something landed
  std::size_t looked_at_ = 0;   ///< the source whose message was not there at the last look
  std::vector<Stack> landing_;  ///< of parts that do not fold: one source each
  std::vector<Stack> folding_;
  std::vector<Accumulation> accumulating_;
};

}  // namespace tessera
