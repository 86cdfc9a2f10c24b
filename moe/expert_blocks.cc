#include "moe/expert_blocks.h"

#include <algorithm>

namespace tessera {

ExpertRange experts_of(std::span<const std::int64_t> held, std::int64_t first,
                       std::int64_t num_ranks) {
  const auto at = static_cast<std::size_t>(first);
  return {sum_of(held.first(at)), sum_of(held.subspan(at, static_cast<std::size_t>(num_ranks)))};
}

void BlockWriter::begin_sender() {
  if (capacity_) next_ = *capacity_ * num_senders_;
  ++num_senders_;
}

void BlockWriter::add(std::int64_t rows) {
  const std::int64_t fitting = capacity_ ? std::min(rows, *capacity_ * num_senders_ - next_) : rows;
  blocks_.push_back({next_, fitting});
  next_ += fitting;
}

ExpertOrder expert_order_of(Runtime& runtime, const BlockWriter& blocks, const OrderedSize& size) {
  const RowOrder order =
      order_by_expert(blocks.blocks(), blocks.num_senders(), blocks.num_rows(), size);
  return {.source_R = index_tensor(runtime, order.source_R),
          .restore_N = index_tensor(runtime, order.restore_N),
          .counts_e = index_tensor(runtime, order.counts_e)};
}

}  // namespace tessera
