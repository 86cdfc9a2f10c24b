#include "moe/dispatch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dtensor/ops.h"

namespace tessera {
namespace {

DTensor indices(Runtime& runtime, std::span<const std::int64_t> values) {
  Array array = Array::empty({static_cast<std::int64_t>(values.size())}, DType::kI64,
                             runtime.kernels().allocator);
  std::copy(values.begin(), values.end(), array.data<std::int64_t>());
  return plain(runtime, std::move(array));
}

std::span<const std::int64_t> values_of(const DTensor& x) {
  return {x.local().data<std::int64_t>(), static_cast<std::size_t>(x.local().num_elements())};
}

/// The one point where counts reach the host: row counts decide the shapes of what follows.
void log_host_read(Runtime& runtime, const Site& site) {
  const double now = runtime.world().now_us();
  runtime.events().add({.kind = Event::Kind::kHostRead,
                        .name = "moe.dispatch.counts",
                        .tensor = "counts_E",
                        .module = runtime.events().module(),
                        .file = site.file_name(),
                        .line = static_cast<int>(site.line()),
                        .start_us = now,
                        .end_us = now});
}

std::int64_t group_size(const AxisGroup& group) {
  std::int64_t size = 1;
  for (const int axis : group.axes) size *= group.mesh.size(axis);
  return size;
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

ExpertOrder expert_order(std::span<const std::int64_t> counts, std::int64_t num_senders) {
  const auto num_local = static_cast<std::int64_t>(counts.size()) / num_senders;
  std::vector<std::int64_t> begins(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
  ExpertOrder order;
  order.source_R.reserve(static_cast<std::size_t>(begins.back()));
  for (std::int64_t expert = 0; expert < num_local; ++expert) {
    const std::size_t before = order.source_R.size();
    for (std::int64_t sender = 0; sender < num_senders; ++sender) {
      const auto block = static_cast<std::size_t>(sender * num_local + expert);
      for (std::int64_t row = begins[block]; row < begins[block + 1]; ++row) {
        order.source_R.push_back(row);
      }
    }
    order.counts_e.push_back(static_cast<std::int64_t>(order.source_R.size() - before));
  }
  return order;
}

Dispatched dispatch(const DTensor& x_TD, const DTensor& ids_TK, const DTensor& counts_E,
                    const AxisGroup& ep) {
  Runtime& runtime = x_TD.runtime();
  const std::int64_t num_experts = counts_E.size(0);
  const std::int64_t top_k = ids_TK.size(1);
  const std::int64_t num_ranks = group_size(ep);
  Dispatched out;
  out.slot_N = sort_by_key(reshape(ids_TK, {x_TD.size(0) * top_k}), num_experts).first;
  std::vector<std::int64_t> tokens;
  for (const std::int64_t slot : values_of(out.slot_N)) tokens.push_back(slot / top_k);
  out.token_N = indices(runtime, tokens);
  const DTensor sorted_ND = index_select(x_TD, 0, out.token_N);

  const std::vector<std::int64_t> experts = experts_by_rank(num_experts, num_ranks);
  const auto self = static_cast<std::size_t>(
      num_ranks == 1 ? 0
                     : (*ep.mesh.coord_of(runtime.rank()))[static_cast<std::size_t>(ep.axes[0])]);
  const std::vector<std::int64_t> from_each(static_cast<std::size_t>(num_ranks), experts[self]);
  const DTensor received = all_to_all_v(counts_E, experts, from_each, ep);
  log_host_read(runtime, Site::current());
  const std::span<const std::int64_t> sent_counts = values_of(counts_E);
  const std::span<const std::int64_t> received_counts = values_of(received);
  auto next = sent_counts.begin();
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(num_ranks); ++rank) {
    out.sent_rows.push_back(std::accumulate(next, next + experts[rank], std::int64_t{0}));
    next += experts[rank];
    const auto block = received_counts.subspan(rank * static_cast<std::size_t>(experts[self]),
                                               static_cast<std::size_t>(experts[self]));
    out.received_rows.push_back(std::accumulate(block.begin(), block.end(), std::int64_t{0}));
  }
  const DTensor received_RD = all_to_all_v(sorted_ND, out.sent_rows, out.received_rows, ep);

  const ExpertOrder order = expert_order(received_counts, num_ranks);
  std::vector<std::int64_t> restore(order.source_R.size());
  for (std::size_t row = 0; row < restore.size(); ++row) {
    restore[static_cast<std::size_t>(order.source_R[row])] = static_cast<std::int64_t>(row);
  }
  out.source_R = indices(runtime, order.source_R);
  out.restore_R = indices(runtime, restore);
  out.counts_e = indices(runtime, order.counts_e);
  out.rows_RD = index_select(received_RD, 0, out.source_R);
  return out;
}

DTensor combine(const DTensor& y_RD, const DTensor& weights_TK, const Dispatched& dispatched,
                const AxisGroup& ep) {
  Runtime& runtime = y_RD.runtime();
  const std::int64_t num_tokens = weights_TK.size(0);
  const DTensor returned_ND = all_to_all_v(index_select(y_RD, 0, dispatched.restore_R),
                                           dispatched.received_rows, dispatched.sent_rows, ep);
  const DTensor weight_N =
      index_select(reshape(weights_TK, {num_tokens * weights_TK.size(1)}), 0, dispatched.slot_N);
  const DTensor rows =
      y_RD.dtype() == weights_TK.dtype() ? returned_ND : cast(returned_ND, weights_TK.dtype());
  const DTensor weighted = mul(rows, unsqueeze(weight_N, 1));
  const DTensor zero = zeros(runtime, Spec::plain({num_tokens, y_RD.size(1)}, weighted.dtype()));
  const DTensor summed = index_add(zero, 0, dispatched.token_N, weighted);
  return summed.dtype() == y_RD.dtype() ? summed : cast(summed, y_RD.dtype());
}

}  // namespace tessera
