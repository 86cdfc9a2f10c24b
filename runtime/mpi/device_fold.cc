#include "runtime/mpi/device_fold.h"

#include <algorithm>
#include <utility>

#include "kernels/fold.h"
#include "runtime/device/packed_boxes.h"

namespace tessera {

DeviceFold::DeviceFold(const MovementPlace& place, const CollectiveCall& call,
                       std::vector<Slice> slices, std::byte* out)
    : place_(place),
      call_(call),
      slices_(std::move(slices)),
      out_(out),
      element_bytes_(size_of(call.in().dtype())),
      capacity_(message_capacity(call.pack_bytes(), place.group.size)) {
  for (int rank = 0; rank < place_.group.size; ++rank) {
    rounds_ = std::max(rounds_, (slice_bytes(rank) + capacity_ - 1) / capacity_);
  }
  for (std::byte*& buffer : buffers_) {
    buffer = place_.device->take(capacity_ * (place_.group.size - 1));
  }
}

std::int64_t DeviceFold::buffer_bytes(const MovementPlace& place, const CollectiveCall& call) {
  const std::int64_t capacity = message_capacity(call.pack_bytes(), place.group.size);
  return kSets * DeviceSide::aligned(capacity * (place.group.size - 1));
}

std::int64_t DeviceFold::slice_bytes(int rank) const {
  const Slice& slice = slices_[static_cast<std::size_t>(rank)];
  return (slice.end - slice.begin) * element_bytes_;
}

DeviceFold::Range DeviceFold::range_of(int rank, std::int64_t round) const {
  const std::int64_t begin = round * capacity_;
  return {begin, std::clamp<std::int64_t>(slice_bytes(rank) - begin, 0, capacity_)};
}

// What this rank gives to another's slice, or to its own.
const std::byte* DeviceFold::own_summands(int rank) const {
  return call_.in().bytes() + slices_[static_cast<std::size_t>(rank)].begin * element_bytes_;
}

void DeviceFold::begin() {
  for (int step = 1; step < place_.group.size; ++step) {
    const int to = (place_.group.rank + step) % place_.group.size;
    const std::int64_t bytes = slice_bytes(to);
    if (bytes == 0 || !place_.reads_in_place(to, bytes)) continue;
    const Told& told = tells_.emplace_back(Told{bytes, kNotInPlace});
    sent_.send(*place_.link, place_.at(to, MessagePart::kNotice),
               reinterpret_cast<const std::byte*>(told.data()), sizeof told, sizeof told);
  }
  const std::int64_t own_bytes = slice_bytes(place_.group.rank);
  for (int rank = 0; rank < place_.group.size; ++rank) {
    if (rank == place_.group.rank) continue;
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    if (own_bytes == 0 || !place_.reads_in_place(rank, own_bytes)) {
      peer.told = {own_bytes, kNotInPlace};
      continue;
    }
    peer.notice.recv(*place_.link, place_.at(rank, MessagePart::kNotice),
                     reinterpret_cast<std::byte*>(peer.told.data()), sizeof(Told), sizeof(Told));
  }
}

bool DeviceFold::hears(Peer& peer) {
  if (!peer.notice.done()) return false;
  const std::int64_t own_bytes = slice_bytes(place_.group.rank);
  if (peer.told[0] != own_bytes) throw_different(place_, peer.rank, peer.told[0], own_bytes);
  if (peer.told[1] != kNotInPlace) {
    const std::int64_t whole = call_.in().num_bytes();
    const std::byte* array = bytes_in_place(place_, peer.rank, {peer.told[1], whole}, whole);
    peer.in_place = array + (own_summands(place_.group.rank) - call_.in().bytes());
  }
  return true;
}

void DeviceFold::post_round() {
  const std::int64_t round = posted_++;
  const auto set = static_cast<std::size_t>(round % kSets);
  const Range own = range_of(place_.group.rank, round);
  std::byte* into = buffers_[set];
  for (const Peer& peer : peers_) {
    if (own.bytes == 0) break;
    if (peer.in_place != nullptr) {
      place_.device->upload(into, peer.in_place + own.begin_bytes, own.bytes);
    } else {
      received_[set].recv(*place_.link, place_.at(peer.rank, MessagePart::kData), into, own.bytes,
                          1);
    }
    into += capacity_;
  }
  for (const Peer& peer : peers_) {
    const Range range = range_of(peer.rank, round);
    if (range.bytes == 0) continue;
    sent_.send(*place_.link, place_.at(peer.rank, MessagePart::kData),
               own_summands(peer.rank) + range.begin_bytes, range.bytes, 1);
  }
}

void DeviceFold::fold_round() {
  const std::int64_t round = folded_++;
  const Range own = range_of(place_.group.rank, round);
  if (own.bytes == 0) return;
  std::vector<const std::byte*> summands;
  const std::byte* received = buffers_[static_cast<std::size_t>(round % kSets)];
  for (int rank = 0; rank < place_.group.size; ++rank) {
    if (rank == place_.group.rank) {
      summands.push_back(own_summands(rank) + own.begin_bytes);
    } else {
      summands.push_back(received);
      received += capacity_;
    }
  }
  place_.device->fold(summands, out_ + own.begin_bytes, own.bytes / element_bytes_,
                      call_.in().dtype(), fold_by(call_.reduce(), call_.divisor()));
  place_.device->hold_messages();
}

bool DeviceFold::advance() {
  while (heard_ < peers_.size() && hears(peers_[heard_])) ++heard_;
  if (heard_ < peers_.size()) return false;
  while (folded_ < rounds_) {
    // A set is received into again once the device has folded what it held.
    while (posted_ < rounds_ && posted_ < folded_ + kSets && place_.device->lets_messages()) {
      post_round();
    }
    if (posted_ == folded_ || !received_[static_cast<std::size_t>(folded_ % kSets)].done()) {
      return false;
    }
    fold_round();
    if (folded_ < rounds_) continue;
    for (const Peer& peer : peers_) {
      if (peer.in_place == nullptr) continue;
      sent_.send(*place_.link, place_.at(peer.rank, MessagePart::kNotice), nullptr, 0, 1);
    }
  }
  return sent_.done();
}

void DeviceFold::abandon() noexcept {
  for (Peer& peer : peers_) peer.notice.abandon();
  for (Messages& each : received_) each.abandon();
  sent_.abandon();
}

}  // namespace tessera
