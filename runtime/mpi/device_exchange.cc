#include "runtime/mpi/device_exchange.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

using Side = BoxWalk::Side;

/// f(its first byte in the parcel, its bytes) for each message.
template <class F>
void for_each_message(const Parcel& parcel, std::int64_t capacity, F&& f) {
  MessageCutter cutter(parcel.pair.parts, capacity);
  for (std::int64_t begin = 0; !cutter.is_done(); begin += capacity) {
    f(begin, message_bytes(cutter.next()));
  }
}

}  // namespace

DeviceExchange::DeviceExchange(const MovementPlace& place, const CollectiveCall& call,
                               DeviceBoxes boxes)
    : place_(place),
      call_(call),
      capacity_(message_capacity(call.pack_bytes(), place.group.size)),
      boxes_(std::move(boxes)) {
  boxes_.pack(*place_.device);
}

void DeviceExchange::begin() {
  for (const Parcel& parcel : boxes_.incoming()) {
    Incoming& incoming = incoming_.emplace_back();
    incoming.parcel = &parcel;
    if (!place_.reads_in_place(parcel.pair.peer, parcel.pair.bytes)) {
      expect(parcel);
      continue;
    }
    incoming.offsets.resize(1 + parcel.pair.parts.size());
    const auto bytes = static_cast<std::int64_t>(std::span(incoming.offsets).size_bytes());
    incoming.notice.recv(*place_.link, place_.at(parcel.pair.peer, MessagePart::kNotice),
                         reinterpret_cast<std::byte*>(incoming.offsets.data()), bytes, bytes);
  }
  for (const Parcel& parcel : boxes_.outgoing()) send(parcel);
}

// No rank reads a device's memory in place, so the data follow their notice at once.
void DeviceExchange::send(const Parcel& parcel) {
  const Pair& pair = parcel.pair;
  if (place_.reads_in_place(pair.peer, pair.bytes)) {
    Offsets& offsets = notices_.emplace_back(1 + pair.parts.size(), kNotInPlace);
    offsets.front() = pair.bytes;
    const auto bytes = static_cast<std::int64_t>(std::span(offsets).size_bytes());
    sent_.send(*place_.link, place_.at(pair.peer, MessagePart::kNotice),
               reinterpret_cast<const std::byte*>(offsets.data()), bytes, bytes);
  }
  for_each_message(parcel, capacity_, [&](std::int64_t begin, std::int64_t bytes) {
    sent_.send(*place_.link, place_.at(pair.peer, MessagePart::kData), parcel.data + begin, bytes,
               1);
  });
}

void DeviceExchange::expect(const Parcel& parcel) {
  for_each_message(parcel, capacity_, [&](std::int64_t begin, std::int64_t bytes) {
    received_.recv(*place_.link, place_.at(parcel.pair.peer, MessagePart::kData),
                   parcel.data + begin, bytes, 1);
  });
}

bool DeviceExchange::hears(Incoming& incoming) {
  if (incoming.offsets.empty()) return true;
  if (!incoming.notice.done()) return false;
  const Pair& pair = incoming.parcel->pair;
  if (incoming.offsets[0] != pair.bytes) {
    throw_different(place_, pair.peer, incoming.offsets[0], pair.bytes);
  }
  if (incoming.offsets[1] == kNotInPlace) {
    expect(*incoming.parcel);
  } else {
    fetch(incoming);
  }
  return true;
}

// The giver's arrays lie on the host, where this rank reads them.
void DeviceExchange::fetch(const Incoming& incoming) {
  const Parcel& parcel = *incoming.parcel;
  std::vector<Packer::Source> sources;
  std::vector<Stretch> whole;
  for (std::size_t slot = 0; slot < parcel.pair.parts.size(); ++slot) {
    const PairPart& each = parcel.pair.parts[slot];
    std::vector<PlacedBox> boxes = boxes_at(call_.parts()[each.part], parcel.pair.peer);
    const std::int64_t bytes = num_elements(boxes.front().shape) * each.element_bytes;
    sources.push_back(
        {std::move(boxes),
         bytes_in_place(place_, parcel.pair.peer, {incoming.offsets[1 + slot], bytes}, bytes),
         each.element_bytes});
    whole.push_back({slot, parcel.layout.begins[slot], each.bytes});
  }
  const Array packed = Array::empty({parcel.layout.bytes}, DType::kBool, place_.allocator);
  Packer(std::move(sources)).pack(whole, packed.bytes());
  place_.device->upload(parcel.data, packed.bytes(), parcel.layout.bytes);
  sent_.send(*place_.link, place_.at(parcel.pair.peer, MessagePart::kNotice), nullptr, 0, 1);
}

bool DeviceExchange::advance() {
  while (heard_ < incoming_.size() && hears(incoming_[heard_])) ++heard_;
  if (heard_ < incoming_.size()) return false;
  if (!has_landed_) {
    if (!received_.done()) return false;
    boxes_.land(*place_.device);
    has_landed_ = true;
  }
  return sent_.done();
}

void DeviceExchange::abandon() noexcept {
  for (Incoming& incoming : incoming_) incoming.notice.abandon();
  received_.abandon();
  sent_.abandon();
}

}  // namespace tessera
