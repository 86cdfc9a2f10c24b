#include "runtime/mpi/peer_movement.h"

#include <atomic>

#include "runtime/call/peer_rows.h"
#include "runtime/call/prepared_call.h"

namespace tessera {

using Way = PeerRows::Way;

std::vector<const Array*> PeerMovement::given() const {
  const PeerRows& rows = *call_.as<PeerRowsCall>().rows;
  if (rows.way != Way::kPut) return {&call_.in()};
  std::vector<const Array*> arrays = {&call_.in(), &rows.place_TK};
  if (!rows.weights_TK.is_null()) arrays.push_back(&rows.weights_TK);
  return arrays;
}

void PeerMovement::begin() {
  arrays_ = given();
  own_.rows = arrays_[0]->size(0);
  peers_.resize(static_cast<std::size_t>(place_.group.size));
  Peer& self = peers_[static_cast<std::size_t>(place_.group.rank)];
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    const std::int64_t bytes = arrays_[i]->num_bytes();
    own_.arrays[i] = {place_.host->offset_of(arrays_[i]->bytes(), bytes).value_or(kNotInPlace),
                      bytes};
    self.arrays[i] = arrays_[i]->bytes();
  }
  self.offer = own_;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // also of what went past the caches
  for (int peer = 0; peer < place_.group.size; ++peer) {
    if (is_own(peer)) continue;
    const auto address = place_.at(peer, MessagePart::kNotice);
    messages_.send(*place_.link, address, reinterpret_cast<const std::byte*>(&own_), sizeof own_,
                   sizeof own_);
    messages_.recv(*place_.link, address,
                   reinterpret_cast<std::byte*>(&peers_[static_cast<std::size_t>(peer)].offer),
                   sizeof(Offer), sizeof(Offer));
  }
}

bool PeerMovement::advance() {
  while (messages_.done()) {
    switch (phase_) {
      case Phase::kOffering:
        fetch();
        phase_ = Phase::kFetching;
        break;
      case Phase::kFetching:
        move();
        thank();
        phase_ = Phase::kThanking;
        break;
      case Phase::kThanking:
        return true;
    }
  }
  return false;
}

void PeerMovement::fetch() {
  for (int peer = 0; peer < place_.group.size; ++peer) {
    if (is_own(peer)) continue;
    Peer& from = peers_[static_cast<std::size_t>(peer)];
    const auto address = place_.at(peer, MessagePart::kData);
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
      if (own_.arrays[i].offset == kNotInPlace && own_.arrays[i].bytes > 0) {
        messages_.send(*place_.link, address, arrays_[i]->bytes(), own_.arrays[i].bytes, 1);
      }
      const Notice& notice = from.offer.arrays[i];
      const std::int64_t bytes = from.offer.rows * row_bytes(*arrays_[i]);  // the calls agree in it
      if (notice.bytes != bytes) throw_different(place_, peer, notice.bytes, bytes);
      if (bytes == 0) continue;
      if (notice.offset == kNotInPlace) {
        const Array& landed =
            from.landed.emplace_back(Array::empty({bytes}, DType::kU8, place_.allocator));
        messages_.recv(*place_.link, address, landed.bytes(), bytes, 1);
        from.arrays[i] = landed.bytes();
      } else {
        from.arrays[i] = bytes_in_place(place_, peer, notice, bytes);
      }
    }
  }
}

void PeerMovement::move() {
  const PeerRows& rows = *call_.as<PeerRowsCall>().rows;
  KernelContext ctx;
  if (rows.way == Way::kPut) {
    std::vector<kernels::PutSource> sources;
    for (const Peer& peer : peers_) {
      sources.push_back({peer.arrays[0], peer.arrays[2],
                         reinterpret_cast<const std::int64_t*>(peer.arrays[1]), peer.offer.rows});
    }
    kernels::take_put_rows(ctx,
                           {.sources = sources,
                            .tokens = call_.in().dtype(),
                            .top_k = rows.place_TK.size(1),
                            .own = place_.group.rank,
                            .copies = rows.copies},
                           call_.out());
    return;
  }
  std::vector<kernels::PeerBuffer> buffers;
  for (const Peer& peer : peers_) {
    // Only read: the mappings of peers are.
    buffers.push_back({const_cast<std::byte*>(peer.arrays[0]), peer.offer.rows});
  }
  move_peer_rows(ctx, call_, buffers, cpu_device().comm());
}

void PeerMovement::thank() {
  for (int peer = 0; peer < place_.group.size; ++peer) {
    if (is_own(peer)) continue;
    const auto address = place_.at(peer, MessagePart::kNotice);
    messages_.send(*place_.link, address, nullptr, 0, 1);
    messages_.recv(*place_.link, address, nullptr, 0, 1);
  }
}

}  // namespace tessera
