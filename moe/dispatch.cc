#include "moe/dispatch.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/status.h"

namespace tessera {
namespace {

std::int64_t round_up(std::int64_t rows, std::int64_t alignment) {
  return (rows + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, std::int64_t ep) {
  const std::int64_t chunk = (num_experts + ep - 1) / ep;
  std::vector<std::int64_t> held;
  for (std::int64_t rank = 0; rank < ep; ++rank) {
    held.push_back(std::clamp(num_experts - rank * chunk, std::int64_t{0}, chunk));
  }
  return held;
}

TokenRange chunk_of(std::int64_t num_tokens, std::int64_t chunks, std::int64_t chunk) {
  return {num_tokens * chunk / chunks, num_tokens * (chunk + 1) / chunks};
}

RowOrder order_by_expert(std::span<const RowBlock> blocks, std::int64_t num_senders,
                         std::int64_t num_received, const OrderedSize& size) {
  const auto num_local =
      num_senders == 0 ? 0 : static_cast<std::int64_t>(blocks.size()) / num_senders;
  RowOrder order;
  order.restore_N.assign(static_cast<std::size_t>(num_received), -1);
  for (std::int64_t expert = 0; expert < num_local; ++expert) {
    const std::size_t before = order.source_R.size();
    for (std::int64_t sender = 0; sender < num_senders; ++sender) {
      const RowBlock& block = blocks[static_cast<std::size_t>(sender * num_local + expert)];
      for (std::int64_t row = block.begin; row < block.begin + block.rows; ++row) {
        order.restore_N[static_cast<std::size_t>(row)] =
            static_cast<std::int64_t>(order.source_R.size());
        order.source_R.push_back(row);
      }
    }
    const auto rows = static_cast<std::int64_t>(order.source_R.size() - before);
    const std::int64_t wanted = size.rows_per_expert.value_or(rows);
    TSR_CHECK(rows <= wanted,
              absl::StrFormat("expert %d has %d rows, but room for %d", expert, rows, wanted));
    order.counts_e.push_back(round_up(wanted, size.alignment));
    order.source_R.resize(before + static_cast<std::size_t>(order.counts_e.back()), -1);
  }
  if (size.num_rows) order.source_R.resize(static_cast<std::size_t>(*size.num_rows), -1);
  return order;
}

RowOrder expert_order(std::span<const std::int64_t> counts, std::int64_t num_senders) {
  std::vector<RowBlock> blocks;
  std::int64_t begin = 0;
  for (const std::int64_t rows : counts) {
    blocks.push_back({begin, rows});
    begin += rows;
  }
  return order_by_expert(blocks, num_senders, begin);
}

std::int64_t padded_bound(std::int64_t rows, std::int64_t num_experts, std::int64_t alignment) {
  return round_up(rows + num_experts * (alignment - 1), alignment);
}

}  // namespace tessera
