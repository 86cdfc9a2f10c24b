#include "runtime/mpi/exchange_movement.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using Side = BoxWalk::Side;

std::byte* bytes_of(std::vector<std::int64_t>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}
std::int64_t num_bytes(const std::vector<std::int64_t>& numbers) {
  return std::ssize(numbers) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

}  // namespace

void ExchangeMovement::begin() {
  for (Pair& pair : pairs_of(call_.parts(), Side::kTarget, place_.group.rank)) {
    incoming_.emplace_back().pair = std::move(pair);
    begin_incoming(incoming_.back());
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // also of what went past the caches
  for (Pair& pair : pairs_of(call_.parts(), Side::kSource, place_.group.rank)) {
    outgoing_.emplace_back().pair = std::move(pair);
    begin_outgoing(outgoing_.back());
  }
}

// ---- What others get

void ExchangeMovement::begin_outgoing(Outgoing& outgoing) {
  const Pair& pair = outgoing.pair;
  if (!place_.reads_in_place(pair.peer, pair.bytes)) return begin_packed(outgoing);
  outgoing.offsets.push_back(pair.bytes);
  bool in_place = true;
  for (const PairPart& each : pair.parts) {
    const Array& in = call_.parts()[each.part].in;
    const auto offset = place_.host->offset_of(in.bytes(), in.num_bytes());
    outgoing.offsets.push_back(offset.value_or(kNotInPlace));
    in_place = in_place && offset.has_value();
  }
  if (!in_place) std::fill(outgoing.offsets.begin() + 1, outgoing.offsets.end(), kNotInPlace);
  const Messages::Address to = place_.at(pair.peer, MessagePart::kNotice);
  const std::int64_t bytes = num_bytes(outgoing.offsets);
  outgoing.messages.send(*place_.link, to, bytes_of(outgoing.offsets), bytes, bytes);
  if (in_place) {
    outgoing.messages.recv(*place_.link, to, nullptr, 0, 1);  // the reader's thanks
  } else {
    begin_packed(outgoing);
  }
}

void ExchangeMovement::begin_packed(Outgoing& outgoing) {
  std::vector<Packer::Source> sources;
  for (const PairPart& each : outgoing.pair.parts) {
    const ExchangePart& part = call_.parts()[each.part];
    sources.push_back(
        {boxes_of(part, Side::kSource, outgoing.pair.peer), part.in.bytes(), each.element_bytes});
  }
  outgoing.packer.emplace(std::move(sources));
  outgoing.cutter.emplace(outgoing.pair.parts, capacity_);
  outgoing.buffer = Array::empty({outgoing.cutter->buffer_bytes()}, DType::kBool, place_.allocator);
  static_cast<void>(is_over(outgoing));
}

bool ExchangeMovement::is_over(Outgoing& outgoing) {
  while (outgoing.messages.done()) {
    if (!outgoing.cutter || outgoing.cutter->is_done()) return true;
    const std::vector<Stretch> message = outgoing.cutter->next();
    outgoing.packer->pack(message, outgoing.buffer.bytes());
    ++sent_;
    outgoing.messages.send(*place_.link, place_.at(outgoing.pair.peer, MessagePart::kData),
                           outgoing.buffer.bytes(), message_bytes(message), 1);
  }
  return false;
}

// ---- What this rank gets

void ExchangeMovement::begin_incoming(Incoming& incoming) {
  const Pair& pair = incoming.pair;
  if (!place_.reads_in_place(pair.peer, pair.bytes)) {
    incoming.received = std::make_unique<ReceivedSource>(place_, pair, capacity_);
    return;
  }
  incoming.offsets.resize(1 + pair.parts.size());
  const std::int64_t bytes = num_bytes(incoming.offsets);
  incoming.messages.recv(*place_.link, place_.at(pair.peer, MessagePart::kNotice),
                         bytes_of(incoming.offsets), bytes, bytes);
}

bool ExchangeMovement::hears(Incoming& incoming) {
  const Pair& pair = incoming.pair;
  if (incoming.received != nullptr) return true;
  if (!incoming.messages.done()) return false;
  if (incoming.offsets[0] != pair.bytes) {
    throw_different(place_, pair.peer, incoming.offsets[0], pair.bytes);
  }
  if (incoming.offsets[1] == kNotInPlace) {
    incoming.received = std::make_unique<ReceivedSource>(place_, pair, capacity_);
    return true;
  }
  for (std::size_t slot = 0; slot < pair.parts.size(); ++slot) {
    const ExchangeBoxes& boxes = *call_.parts()[pair.parts[slot].part].boxes;
    const auto box = std::ranges::find(boxes.into, pair.peer, &Transfer::peer);
    const auto index = static_cast<std::size_t>(box - boxes.into.begin());
    const std::int64_t bytes = num_elements(boxes.cut_from[index]) * pair.parts[slot].element_bytes;
    incoming.arrays.push_back(
        bytes_in_place(place_, pair.peer, {incoming.offsets[1 + slot], bytes}, bytes));
  }
  return true;
}

const std::byte* ExchangeMovement::array_of(std::size_t part, std::int64_t peer) const {
  if (peer == place_.group.rank) return call_.parts()[part].in.bytes();
  for (const Incoming& incoming : incoming_) {
    if (incoming.pair.peer != peer || incoming.arrays.empty()) continue;
    const auto slot = std::ranges::find(incoming.pair.parts, part, &PairPart::part);
    return incoming.arrays[static_cast<std::size_t>(slot - incoming.pair.parts.begin())];
  }
  return nullptr;
}

void ExchangeMovement::begin_landing() {
  const bool in_place = std::ranges::all_of(
      incoming_, [](const Incoming& incoming) { return incoming.received == nullptr; });
  if (in_place) {
    land_in_place();
  } else {
    begin_packed_landing();
  }
}

void ExchangeMovement::land_in_place() {
  std::vector<const std::byte*> sources;
  for (std::size_t p = 0; p < call_.parts().size(); ++p) {
    const ExchangePart& part = call_.parts()[p];
    if (part.boxes->into.empty()) continue;
    sources.clear();
    for (const Transfer& box : part.boxes->into) sources.push_back(array_of(p, box.peer));
    if (part.boxes->landing != nullptr) {
      part.boxes->landing->land(sources, part.out);
    } else {
      landing_of(*part.boxes, view_of(part.out.shape())).land(sources, part.out);
    }
  }
}

// Boxes of arrays at hand land at once, unless they are summands of a fold.
void ExchangeMovement::begin_packed_landing() {
  PackedLanding::Sources sources;
  for (Incoming& incoming : incoming_) {
    if (incoming.received != nullptr) {
      sources.push_back(incoming.received.get());
    } else {
      sources.push_back(&summands_of(incoming.pair.peer));
    }
  }
  sources.push_back(&summands_of(place_.group.rank));
  for (std::size_t p = 0; p < call_.parts().size(); ++p) {
    if (!call_.parts()[p].boxes->fold) land_directly(p);
  }
  landing_.emplace(call_.parts(), std::move(sources));
}

void ExchangeMovement::land_directly(std::size_t p) {
  const ExchangePart& part = call_.parts()[p];
  for (std::size_t i = 0; i < part.boxes->into.size(); ++i) {
    const Transfer& box = part.boxes->into[i];
    const std::byte* data = array_of(p, box.peer);
    if (data == nullptr) continue;
    copy_box(Box(box, view_of(part.boxes->cut_from[i]), view_of(part.out.shape())), data,
             part.out.bytes(), size_of(part.out.dtype()));
  }
}

LocalSource& ExchangeMovement::summands_of(int peer) {
  Pair pair{.peer = peer};
  std::vector<Packer::Source> sources;
  for (std::size_t p = 0; p < call_.parts().size(); ++p) {
    const ExchangePart& part = call_.parts()[p];
    if (!part.boxes->fold) continue;
    std::vector<PlacedBox> boxes = boxes_at(part, peer);
    if (boxes.empty()) continue;
    const std::int64_t element = size_of(dtype_of(part));
    pair.parts.push_back({p, 0, element});
    for (const PlacedBox& each : boxes)
      pair.parts.back().bytes += each.box->num_elements() * element;
    pair.bytes += pair.parts.back().bytes;
    sources.push_back({std::move(boxes), array_of(p, peer), element});
  }
  return summands_.emplace_back(std::move(pair), std::move(sources), capacity_, place_.allocator);
}

// Tells those whose arrays were read.
void ExchangeMovement::thank() {
  for (const Incoming& incoming : incoming_) {
    if (incoming.arrays.empty()) continue;
    thanks_.send(*place_.link, place_.at(incoming.pair.peer, MessagePart::kNotice), nullptr, 0, 1);
  }
}

bool ExchangeMovement::advance() {
  for (Outgoing& outgoing : outgoing_) {
    if (outgoing.cutter && !outgoing.cutter->is_done()) static_cast<void>(is_over(outgoing));
  }
  if (phase_ == Phase::kHearing) {
    while (heard_ < incoming_.size() && hears(incoming_[heard_])) ++heard_;
    if (heard_ < incoming_.size()) return false;
    begin_landing();
    phase_ = Phase::kLanding;
  }
  if (phase_ == Phase::kLanding) {
    if (landing_ && !landing_->advance()) return false;
    thank();
    phase_ = Phase::kClosing;
  }
  return thanks_.done() &&
         std::ranges::all_of(outgoing_, [&](Outgoing& outgoing) { return is_over(outgoing); });
}

void ExchangeMovement::abandon() noexcept {
  for (Outgoing& outgoing : outgoing_) outgoing.messages.abandon();
  for (Incoming& incoming : incoming_) {
    incoming.messages.abandon();
    if (incoming.received != nullptr) incoming.received->abandon();
  }
  thanks_.abandon();
}

}  // namespace tessera
