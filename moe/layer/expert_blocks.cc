#include "moe/layer/expert_blocks.h"

#include <numeric>

#include "dtensor/ops.h"

namespace tessera {
namespace {

/// Rows behind one another, in the order of experts.
std::int64_t ordered_rows(const Arrival& arrival, const OrderedSize& size, std::int64_t received) {
  const CountTable& counts = arrival.counts;
  if (size.rows_per_expert) {
    return counts.num_experts * padded_rows(*size.rows_per_expert, size.alignment);
  }
  if (arrival.room) return padded_bound(received, counts.num_experts, size.alignment);
  std::int64_t rows = 0;
  for (std::int64_t expert = 0; expert < counts.num_experts; ++expert) {
    std::int64_t held = 0;
    for (std::int64_t rank = 0; rank < arrival.ep * arrival.etp; ++rank) {
      held += counts.at(rank, arrival.chunk, expert);
    }
    rows += padded_rows(held, size.alignment);
  }
  return rows;
}

bool tile(std::span<const ExpertRange> ranges, std::int64_t size) {
  std::int64_t next = 0;
  for (const ExpertRange& range : ranges) {
    if (range.size == 0) continue;
    if (range.begin != next) return false;
    next = range.end();
  }
  return next == size;
}

}  // namespace

ExpertRange experts_of(std::span<const std::int64_t> held, std::int64_t first,
                       std::int64_t num_ranks) {
  const auto at = static_cast<std::size_t>(first);
  return {sum_of(held.first(at)), sum_of(held.subspan(at, static_cast<std::size_t>(num_ranks)))};
}

std::int64_t CountTable::rows(std::int64_t rank, std::int64_t chunk) const {
  const auto first = values.begin() + (rank * chunks + chunk) * num_experts;
  return std::accumulate(first, first + num_experts, std::int64_t{0});
}

Indices Arrival::rows_by_etp() const {
  Indices rows;
  for (std::int64_t etp_rank = 0; etp_rank < etp; ++etp_rank) {
    std::int64_t own = 0;
    for (std::int64_t rank = 0; rank < ep; ++rank) own += rows_of(rank_at(rank, etp_rank));
    rows.push_back(own);
  }
  return rows;
}

ExpertOrder expert_order_of(const Arrival& arrival, const OrderedSize& size) {
  const CountTable& counts = arrival.counts;
  Runtime& runtime = counts.received.runtime();
  const std::int64_t received = sum_of(arrival.rows_by_etp());
  const ExpertOrder order = {
      .source_R = empty_list(runtime, {ordered_rows(arrival, size, received)}),
      .restore_N = empty_list(runtime, {received}),
      .counts_e = empty_list(runtime, {counts.num_experts})};
  const std::int64_t by_chunk = counts.num_experts, by_rank = by_chunk * counts.chunks;
  const Array& table = counts.received.local();
  kernels::order_by_key(
      runtime.kernels(),
      {.counts_PSK = table.as_strided({arrival.etp, arrival.ep, counts.num_experts},
                                      {by_rank, arrival.etp * by_rank, 1},
                                      table.offset() + arrival.chunk * by_chunk),
       .room = arrival.room.value_or(kernels::kAnyNumber)},
      {.rows = size.rows_per_expert.value_or(kernels::kAnyNumber), .alignment = size.alignment}, {},
      {order.source_R.local(), order.restore_N.local(), order.counts_e.local()});
  return order;
}

DTensor counts_to_send(std::span<const DTensor> counts_by_chunk,
                       std::span<const ExpertRange> by_rank) {
  if (counts_by_chunk.size() == 1 && tile(by_rank, counts_by_chunk[0].size(0))) {
    return counts_by_chunk[0];
  }
  std::vector<DTensor> parts;
  for (const ExpertRange& range : by_rank) {
    if (range.size == 0) continue;
    for (const DTensor& counts : counts_by_chunk) {
      parts.push_back(slice(counts, 0, range.begin, range.end()));
    }
  }
  return parts.empty() ? first_of(counts_by_chunk[0], 0) : cat(parts, 0);
}

}  // namespace tessera
