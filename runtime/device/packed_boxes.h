// runtime/device/packed_boxes.h: the boxes that one rank sends another, one after another, cut into
// messages. Both ends cut alike, from the boxes and the most bytes of a message. Vocabulary: a
// stretch is what a message holds of one tensor (part) of an exchange.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"

namespace tessera TSR_BACKEND_API {

/// A box and the array that it is cut from or lands in.
struct PlacedBox {
  const Transfer* box = nullptr;
  ShapeView shape;
};

/// Elements of boxes in order, as contiguous runs of their array.
class BoxWalk {
 public:
  enum class Side : std::uint8_t { kSource, kTarget };
  BoxWalk(std::vector<PlacedBox> boxes, Side side);

  /// f(element, count) for the runs that make up the next `elements`. Requires that so many are
  /// left.
  template <class F>
  void next(std::int64_t elements, F&& f) {
    while (elements > 0) {
      const std::int64_t count = elements < left_ ? elements : left_;
      f(at_, count);
      at_ += count;
      left_ -= count;
      elements -= count;
      if (left_ == 0) next_run();
    }
  }

 private:
  struct Level {
    const std::vector<Run>* runs;
    std::int64_t stride;
    std::size_t run = 0;
    std::int64_t index = 0;  ///< in the run; of the innermost level always 0
  };
  std::int64_t begin_of(const Run& run) const { return side_ == Side::kSource ? run.src : run.dst; }
  void open_box();
  void open_run();
  void next_run();

  std::vector<PlacedBox> boxes_;
  Side side_;
  std::size_t box_ = 0;
  std::vector<Level> levels_;  ///< outer to inner
  std::int64_t piece_ = 1;     ///< elements of the trailing dims that the box covers whole
  std::int64_t at_ = 0, left_ = 0;
};

/// What of one part goes from one rank to another.
struct PairPart {
  std::size_t part = 0;
  std::int64_t bytes = 0;
  std::int64_t element_bytes = 1;
};
/// What goes between this rank and a peer.
struct Pair {
  int peer = 0;
  std::int64_t bytes = 0;
  std::vector<PairPart> parts;
};
/// Pairs of this rank as receiver (kTarget) or sender (kSource), itself left out.
std::vector<Pair> pairs_of(std::span<const ExchangePart> parts, BoxWalk::Side side, int self);
/// The boxes of one part that come from (kTarget) or go to (kSource) `peer`, on this rank's side.
std::vector<PlacedBox> boxes_of(const ExchangePart& part, BoxWalk::Side side, int peer);
/// Boxes read from `peer`, in the peer's array.
std::vector<PlacedBox> boxes_at(const ExchangePart& part, int peer);
/// The element of the array at which the boxes begin, where they are one stretch of it in order.
std::optional<std::int64_t> begin_of_stretch(std::span<const PlacedBox> boxes, BoxWalk::Side side);

std::int64_t elements_in(std::span<const PlacedBox> boxes);
/// Whether the boxes land on the same elements, in the same order.
bool land_alike(std::span<const PlacedBox> a, std::span<const PlacedBox> b);

/// Bytes of one message's buffer, so that 2 n − 1 of them stay below the cap.
std::int64_t message_capacity(std::int64_t pack_bytes, int num_ranks);

struct Stretch {
  std::size_t slot = 0;     ///< in the pair's parts
  std::int64_t offset = 0;  ///< in the message
  std::int64_t bytes = 0;
};

class MessageCutter {
 public:
  MessageCutter(std::vector<PairPart> parts, std::int64_t capacity);
  /// Bytes of a buffer that holds any of the messages.
  std::int64_t buffer_bytes() const noexcept { return buffer_bytes_; }
  bool is_done() const noexcept { return slot_ == parts_.size(); }
  /// The next message's stretches; it ends with the last of them.
  std::vector<Stretch> next();

 private:
  std::vector<PairPart> parts_;
  std::int64_t capacity_;
  std::int64_t buffer_bytes_ = 0;
  std::size_t slot_ = 0;
  std::int64_t taken_ = 0;  ///< of the slot
};
std::int64_t message_bytes(std::span<const Stretch> message);
/// Where the parts begin when messages follow one another without a gap, and the bytes of them all.
struct PairLayout {
  std::vector<std::int64_t> begins;
  std::int64_t bytes = 0;
};
PairLayout layout_of(std::span<const PairPart> parts);

/// Fills messages from arrays.
class Packer {
 public:
  struct Source {
    std::vector<PlacedBox> boxes;
    const std::byte* data = nullptr;
    std::int64_t element_bytes = 1;
  };
  /// By slot.
  explicit Packer(std::vector<Source> sources);
  void pack(std::span<const Stretch> message, std::byte* to);

 private:
  struct Slot {
    BoxWalk walk;
    const std::byte* data;
    std::int64_t element_bytes;
  };
  std::vector<Slot> slots_;
};

}  // namespace tessera
