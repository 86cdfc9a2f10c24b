// runtime/device/box_rounds.h: the boxes of an exchange in the memory of a device, in rounds whose
// buffers stay below the call's cap. Vocabulary: a flow is what goes between this rank and a peer;
// a stream, what of it is one part's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/signature.h"
#include "runtime/device/device_side.h"
#include "runtime/device/packed_boxes.h"

namespace tessera TSR_BACKEND_API {

/// One message of a round.
struct RoundMessage {
  int peer = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// Both ends of a flow know its messages from its bytes alone: all at once where they fit into one;
/// else those of parts that land, cut one after another, and then those of each part that folds,
/// cut anew, so that all contributors' pieces are the same ones. Rounds have one order on all
/// ranks, and each of them its messages with a peer at one time.
class BoxRounds {
 public:
  /// `parts`, whose arrays lie on a device, outlive this.
  BoxRounds(std::span<const ExchangePart> parts, const GroupPlace& place, std::int64_t pack_bytes);
  /// Each flow is one message: DeviceBoxes does that.
  bool is_one() const noexcept;
  /// At most the cap, but for parts whose contributors cut the target differently: their summands
  /// are kept until all have come.
  std::int64_t buffer_bytes() const noexcept;

  /// Gives the device messages of the same round.
  using Give = std::function<void(std::span<const RoundMessage> sent,
                                  std::span<const RoundMessage> received)>;
  /// Gives the device all of it.
  void run(DeviceSide& device, const Give& give);

 private:
  using Side = BoxWalk::Side;
  struct Stream {
    PairPart of;
    BoxWalk walk;
    std::byte* array = nullptr;
    std::byte* in_place = nullptr;  ///< where the boxes are one stretch of the array
    std::int64_t moved_bytes = 0;
  };
  struct Flow {
    Pair pair;
    std::vector<Stream> streams;  ///< by the pair's slots
    PairLayout layout;            ///< of a flow that is one message
    bool is_one = true;
    MessageCutter landing;  ///< of a flow that is several; its slots are those of `lands`
    std::vector<std::size_t> lands;
    std::int64_t slot_bytes = 0;
    std::byte* slot = nullptr;
  };
  /// Contributors whose boxes land on the same elements, in their order.
  struct Stack {
    std::vector<int> peers;
    BoxWalk target;
    std::int64_t left_bytes = 0;
  };
  struct FoldedPart {
    std::size_t part = 0;
    std::vector<Stack> stacks;  ///< none: contributors cut the target differently
  };
  struct Round;
  class Moves;

  Flow flow_of(Pair pair, Side side);
  FoldedPart folded_part(std::size_t part) const;
  void size_slots();
  static Stream* stream_of(Flow& flow, std::size_t part);
  Flow* incoming_of(int peer);
  Flow* own_of(std::size_t part);

  void run_ones(DeviceSide& device, const Give& give);
  void run_landing(DeviceSide& device, const Give& give);
  void land_own(DeviceSide& device);
  void run_folded(FoldedPart& folded, DeviceSide& device, const Give& give);
  void pack(Stream& stream, std::int64_t bytes, std::byte* to, Moves& moves) const;
  void land(Stream& stream, std::int64_t bytes, std::byte* from, Moves& moves) const;
  void send_piece(Flow& flow, const FoldedPart& folded, Round& round, Moves& packs);
  void expect_piece(Flow& flow, const FoldedPart& folded, Round& round);
  void fold_piece(Stack& stack, std::size_t part, DeviceSide& device);
  void fold_whole(std::size_t part, DeviceSide& device);

  std::span<const ExchangePart> parts_;
  int self_;
  std::int64_t capacity_;
  std::int64_t unit_bytes_ = 8;  ///< divides all parts' elements
  std::deque<Flow> outgoing_, incoming_;
  std::deque<Flow> own_;  ///< summands of this rank, a part each
  std::vector<FoldedPart> folded_;
};

}  // namespace tessera
