// runtime/mpi/device_exchange.h: how the boxes of an exchange move out of the memory of one device
// into that of another: the messages of ExchangeMovement, so that each rank may do either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/device/device_boxes.h"
#include "runtime/mpi/movement.h"

namespace tessera {

/// Requires place.device, with a buffer of boxes.buffer_bytes().
class DeviceExchange final : public Movement {
 public:
  /// Gives the device the launch that packs.
  DeviceExchange(const MovementPlace& place, const CollectiveCall& call, DeviceBoxes boxes);

  void begin() override;
  bool advance() override;
  void abandon() noexcept override;
  std::int64_t progress() const noexcept override { return static_cast<std::int64_t>(heard_); }

 private:
  /// Bytes of the pair, then kNotInPlace for each of its parts, unless the sender's arrays lie on
  /// the host: see ExchangeMovement.
  using Offsets = std::vector<std::int64_t>;
  struct Incoming {
    const Parcel* parcel = nullptr;
    Offsets offsets;
    Messages notice;
  };

  void send(const Parcel& parcel);
  void expect(const Parcel& parcel);
  bool hears(Incoming& incoming);
  void fetch(const Incoming& incoming);

  MovementPlace place_;
  const CollectiveCall& call_;
  std::int64_t capacity_;
  DeviceBoxes boxes_;
  std::deque<Incoming> incoming_;
  std::deque<Offsets> notices_;  ///< sent
  std::size_t heard_ = 0;        ///< so many of the incoming are known to come how
  bool has_landed_ = false;
  Messages received_;
  Messages sent_;  ///< with notices and thanks
};

}  // namespace tessera
