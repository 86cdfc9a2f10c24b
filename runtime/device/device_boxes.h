// runtime/device/device_boxes.h: the boxes of an exchange in the memory of a device: one launch
// packs what other ranks get, launches land what has come. Vocabulary: a parcel is what goes from
// one rank to another, as its messages have it one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"
#include "runtime/device/device_side.h"
#include "runtime/device/packed_boxes.h"

namespace tessera TSR_BACKEND_API {

struct Parcel {
  Pair pair;
  PairLayout layout;
  std::byte* data = nullptr;
  bool is_packed = true;  ///< else it lies in an array, of which it is one stretch
};

class DeviceBoxes {
 public:
  /// `parts`, whose arrays lie on a device, outlive this. `self`: the group rank.
  DeviceBoxes(std::span<const ExchangePart> parts, int self);
  /// Of the device's memory, for the parcels that are packed: those that come, those that go, and
  /// this rank's own summands.
  std::int64_t buffer_bytes() const noexcept;

  /// Of those that come, one after another, and where a peer's begins among them.
  std::int64_t incoming_bytes() const noexcept;
  std::int64_t begin_of(int peer) const noexcept;
  /// What comes lies in `window`, as above, where peers put it; what goes is put straight to its
  /// place with each peer, by group rank. Before pack().
  void lie_in(std::byte* window, std::span<std::byte* const> places);
  /// Gives the parcels their places, and the device the launch that fills those that go.
  void pack(DeviceSide& device);
  const std::deque<Parcel>& outgoing() const noexcept { return outgoing_; }
  const std::deque<Parcel>& incoming() const noexcept { return incoming_; }
  /// Gives the device the launches that bring what has come, and this rank's own, to its places:
  /// one for all that is copied, one for each dtype and kind of fold. Folds go in order of
  /// contributor.
  void land(DeviceSide& device);

 private:
  /// Boxes of one peer and part, found one after another.
  struct Cursor {
    std::int64_t peer = 0;
    const std::byte* at = nullptr;  ///< null where they lie in place
  };
  void add(std::deque<Parcel>& to, Pair pair, BoxWalk::Side side);
  std::vector<PlacedBox> boxes_in(const Parcel& parcel, std::size_t slot) const;
  std::vector<Cursor> cursors(std::size_t part) const;
  void land_copies(DeviceSide& device);
  struct Bucket;
  void add_fold(std::size_t part, Bucket& bucket);
  void land_folds(DeviceSide& device);

  std::span<const ExchangePart> parts_;
  int self_;
  std::int64_t unit_bytes_ = 8;  ///< divides all parts' elements
  std::deque<Parcel> outgoing_, incoming_;
  std::deque<Parcel> own_;  ///< summands, a part each
};

}  // namespace tessera
