// moe/expert_blocks.h: which experts ranks hold, and how the rows that senders bring them lie in a
// buffer. For the dispatchers' sources.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "moe/dispatch.h"
#include "moe/routed_slots.h"

namespace tessera {

/// Experts [begin, begin + size).
struct ExpertRange {
  std::int64_t begin = 0, size = 0;
  std::int64_t end() const { return begin + size; }
  bool contains(std::int64_t expert) const { return expert >= begin && expert < end(); }
};
/// Those of `num_ranks` ranks from `first` on, where `held` is experts_by_rank().
ExpertRange experts_of(std::span<const std::int64_t> held, std::int64_t first,
                       std::int64_t num_ranks = 1);

/// Lays out what a rank receives: senders in turn, each with its rows by expert.
class BlockWriter {
 public:
  /// `capacity`: rows that each sender's part has room for; empty: as many as it has.
  explicit BlockWriter(std::optional<std::int64_t> capacity) : capacity_(capacity) {}
  void begin_sender();
  void add(std::int64_t rows);
  std::int64_t num_rows() const { return capacity_ ? *capacity_ * num_senders_ : next_; }
  std::int64_t num_senders() const { return num_senders_; }
  std::span<const RowBlock> blocks() const { return blocks_; }

 private:
  std::optional<std::int64_t> capacity_;
  std::int64_t next_ = 0;
  std::int64_t num_senders_ = 0;
  std::vector<RowBlock> blocks_;
};

/// From the order of a buffer to that of experts, and back.
struct ExpertOrder {
  DTensor source_R, restore_N;  ///< as in RowOrder
  DTensor counts_e;
};
ExpertOrder expert_order_of(Runtime& runtime, const BlockWriter& blocks, const OrderedSize& size);

}  // namespace tessera
