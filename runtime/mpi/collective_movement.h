// runtime/mpi/collective_movement.h: how the data of every kind of call but exchanges move.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/mpi/movement.h"

namespace tessera {

/// Ranges of bytes go from rank to rank in rounds; in a round all that this rank gives and takes is
/// under way at once. Short ranges, and those of ranks that are not near, are messages; the rest is
/// read from the giver's array. With a device's arrays messages go from and to its memory, and it
/// does the copies and folds.
class CollectiveMovement final : public Movement {
 public:
  CollectiveMovement(const MovementPlace& place, const CollectiveCall& call,
                     const Signature& signature)
      : place_(place), call_(call), signature_(signature) {}

  void begin() override;
  bool advance() override;
  void abandon() noexcept override;
  std::int64_t progress() const noexcept override {
    return folding_ == nullptr ? 0 : folding_->progress();
  }

 private:
  /// A range that a near rank offers: to be copied to `into`, or, where that is null, folded.
  struct Offer {
    int from = 0;
    MessagePart part = MessagePart::kData;
    std::byte* into = nullptr;
    std::int64_t bytes = 0;
    Notice notice = {};  ///< the giver's
  };
  struct Range {
    int to = 0;
    MessagePart part = MessagePart::kData;
    const std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  enum class Phase : std::uint8_t { kMoving, kThanking };

  bool next_step();
  std::pair<std::byte*, std::int64_t> bytes_of_slice(int rank) const;
  bool is_read_in_place() const;

  void give(int to, MessagePart part, const std::byte* data, std::int64_t bytes);
  void take(int from, MessagePart part, std::byte* into, std::int64_t bytes);
  void send(int to, MessagePart part, const std::byte* data, std::int64_t bytes);
  void recv(int from, MessagePart part, std::byte* into, std::int64_t bytes);
  void take_summands(std::int64_t bytes);
  bool begin_folding(const Array& out);
  std::byte* scratch(std::int64_t bytes);
  Array slice_of_out(const Slice& slice) const;
  void give_rows(std::int64_t row_bytes);
  void accept_offers();
  void accept(const Offer& offer);
  void copy_own(std::byte* into, const std::byte* own, std::int64_t bytes);
  void start_round();
  void thank();
  void fold_into(const std::byte* own, std::byte* out, std::int64_t elements);

  void begin_barrier_round();
  void begin_all_reduce();
  void begin_all_gather();
  void begin_reduce_scatter();
  void begin_all_to_all();
  void begin_broadcast();
  void begin_pair();
  void send_to_children();
  void gather_slices();

  MovementPlace place_;
  const CollectiveCall& call_;
  const Signature& signature_;
  Messages messages_;
  std::optional<CollectiveCall> fold_call_;  ///< what folding_ does
  std::unique_ptr<Movement> folding_;        ///< in pieces, before the messages
  int step_ = 0;
  Phase phase_ = Phase::kMoving;
  std::deque<Notice> notices_;              ///< sent
  std::deque<Offer> offers_;                ///< of this round, in the order of their notices
  std::vector<Range> sent_late_;            ///< after their notices
  std::vector<int> read_by_;                ///< who reads this rank's array in this round
  std::vector<int> read_from_;              ///< whose arrays this rank reads
  std::vector<const std::byte*> summands_;  ///< by group rank
  std::vector<Array> scratch_;  ///< bytes received that are yet to be folded, on the host
};

}  // namespace tessera
