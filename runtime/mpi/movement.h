// runtime/mpi/movement.h: how one call's data move between processes, as steps that never block.
// Folds go in order of group rank, as on the threads backend, so both give the same bits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/mpi/link.h"
#include "runtime/signature.h"

namespace tessera {

/// What a movement needs to know of its call.
struct MovementPlace {
  const MpiLink* link = nullptr;
  std::span<const std::int64_t> ranks;  ///< the group's ranks in the link's communicator
  GroupPlace group;
  std::uint32_t group_id = 0;
  std::uint64_t sequence = 0;
  std::shared_ptr<Allocator> allocator;  ///< of buffers to receive into
};

/// One prepared call's data under way.
class Movement {
 public:
  Movement(const MovementPlace& place, const CollectiveCall& call, const Signature& signature)
      : place_(place), call_(call), signature_(signature) {}

  /// Posts the first messages.
  void begin();
  /// Goes on as far as it can without waiting; true when all is done. Throws Error.
  bool advance();
  void abandon() noexcept { messages_.abandon(); }

 private:
  bool next_step();
  Messages::Address at(int group_rank, MessagePart part) const;
  int others() const noexcept { return place_.group.size - 1; }
  void send(int to, MessagePart part, const std::byte* data, std::int64_t bytes);
  void recv(int from, MessagePart part, std::byte* data, std::int64_t bytes);
  std::byte* scratch(std::int64_t bytes);
  void recv_summands(std::int64_t bytes);
  void send_rows(std::int64_t row_bytes);
  /// Received slices and the own one, by group rank.
  std::vector<const std::byte*> sources(const std::byte* own, std::int64_t bytes) const;
  void fold_into(const std::byte* own, std::byte* out, std::int64_t elements);

  void begin_barrier_round();
  void begin_all_reduce();
  void begin_all_gather();
  void begin_reduce_scatter();
  void begin_all_to_all();
  void begin_broadcast();
  void begin_pair();
  void begin_exchange();
  void recv_box(const ExchangePart& part, const Transfer& box, std::int64_t offset);
  std::byte* send_box(const ExchangePart& part, const Transfer& box, std::byte* pack);
  void gather_slices();
  void place_boxes();

  MovementPlace place_;
  const CollectiveCall& call_;
  const Signature& signature_;
  Messages messages_;
  int step_ = 0;
  Array scratch_;                          ///< bytes received that are yet to be folded or placed
  Array packed_;                           ///< boxes sent
  std::vector<std::int64_t> box_offsets_;  ///< of the boxes read, in scratch_; -1: own
};

}  // namespace tessera
