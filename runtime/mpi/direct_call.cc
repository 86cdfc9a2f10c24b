#include "runtime/mpi/direct_call.h"

#include <utility>

#include "runtime/mpi/collective_movement.h"
#include "runtime/mpi/device_exchange.h"
#include "runtime/mpi/device_fold.h"
#include "runtime/plan/packed_fold.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// All of a call's messages are under way at once; staged they go one after another.
constexpr std::int64_t kMostMessages = 8192;

/// Buffers for what others send this rank to fold.
std::int64_t summand_bytes(const MovementPlace& place, const CollectiveCall& call,
                           const Signature& signature) {
  const bool folds = call.kind() == Kind::kAllReduce || call.kind() == Kind::kReduceScatter;
  if (!folds || place.group.size == 1) return 0;
  std::int64_t bytes = call.in().num_bytes();
  if (call.kind() == Kind::kReduceScatter || bytes > kFoldAllBytes) {
    const std::vector<Slice> slices = slices_to_fold(call, signature, place.group.size);
    if (folds_in_pieces(call, slices)) return DeviceFold::buffer_bytes(place, call);
    const Slice& own = slices[static_cast<std::size_t>(place.group.rank)];
    bytes = (own.end - own.begin) * size_of(call.in().dtype());
  }
  return (place.group.size - 1) * DeviceSide::aligned(bytes);
}

std::int64_t num_messages(const DeviceBoxes& boxes, std::int64_t capacity) {
  std::int64_t count = 0;
  for (const auto* parcels : {&boxes.outgoing(), &boxes.incoming()}) {
    for (const Parcel& parcel : *parcels) count += parcel.layout.bytes / capacity + 1;
  }
  return count;
}

}  // namespace

std::optional<DirectCall> make_direct_call(MovementPlace place, const CollectiveCall& call,
                                           const Signature& signature) {
  DirectCall direct;
  const auto take_device = [&](std::int64_t buffer_bytes) {
    direct.device = std::make_unique<DeviceSide>(call, buffer_bytes);
    place.device = direct.device.get();
  };
  if (call.kind() == Kind::kExchange) {
    DeviceBoxes boxes(call.parts(), place.group.rank);
    const std::int64_t bytes = boxes.buffer_bytes();
    const std::int64_t capacity = message_capacity(call.pack_bytes(), place.group.size);
    if (bytes > call.pack_bytes() || num_messages(boxes, capacity) > kMostMessages) {
      return std::nullopt;
    }
    take_device(bytes);
    direct.movement = std::make_unique<DeviceExchange>(place, call, std::move(boxes));
    return direct;
  }
  take_device(summand_bytes(place, call, signature));
  direct.movement = std::make_unique<CollectiveMovement>(place, call, signature);
  return direct;
}

}  // namespace tessera
