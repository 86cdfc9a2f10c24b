#include "moe/dispatch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "dtensor/ops.h"
#include "dtensor/recompute.h"

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

std::int64_t size_along(const Mesh& mesh, std::span<const int> axes) {
  std::int64_t size = 1;
  for (const int axis : axes) size *= mesh.size(axis);
  return size;
}

/// This rank's position along the axes, row-major.
std::int64_t position_along(const Mesh& mesh, std::span<const int> axes, std::int64_t rank) {
  const auto coord = *mesh.coord_of(rank);
  std::int64_t position = 0;
  for (const int axis : axes) {
    position = position * mesh.size(axis) + coord[static_cast<std::size_t>(axis)];
  }
  return position;
}

std::int64_t sum_of(std::span<const std::int64_t> values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Rows per local expert of each rank of the group, ep-major. Each ep rank's part of the counts
/// goes to all of its etp ranks, so that one exchange tells both hops.
std::vector<std::int64_t> exchange_counts(const DTensor& counts_E, const ExpertGroup& group,
                                          std::span<const std::int64_t> experts) {
  Runtime& runtime = counts_E.runtime();
  const auto etp = static_cast<std::size_t>(group.etp_size());
  const std::int64_t self = position_along(group.mesh, group.ep_axes, runtime.rank());
  std::vector<std::int64_t> send_splits;
  std::vector<std::int64_t> repeated;
  const std::span<const std::int64_t> counts = values_of(counts_E);
  std::size_t first = 0;
  for (const std::int64_t held : experts) {
    const auto part = counts.subspan(first, static_cast<std::size_t>(held));
    for (std::size_t peer = 0; peer < etp; ++peer) {
      repeated.insert(repeated.end(), part.begin(), part.end());
      send_splits.push_back(held);
    }
    first += part.size();
  }
  const std::vector<std::int64_t> recv_splits(send_splits.size(),
                                              experts[static_cast<std::size_t>(self)]);
  return kept_values(runtime, [&]() -> std::vector<std::int64_t> {
    const DTensor received =
        all_to_all_v(indices(runtime, repeated), send_splits, recv_splits, group.all());
    log_host_read(runtime, Site::current());
    const std::span<const std::int64_t> values = values_of(received);
    return {values.begin(), values.end()};
  });
}

/// Fills the rows of every hop, and returns the counts with the gathered blocks in order: by etp
/// rank, then ep rank.
std::vector<std::int64_t> count_rows(Dispatched& out, std::span<const std::int64_t> received,
                                     const ExpertGroup& group) {
  const std::int64_t ep = group.ep_size();
  const std::int64_t etp = group.etp_size();
  const std::int64_t self = position_along(group.mesh, group.etp_axes, out.slot_N.runtime().rank());
  const auto local = received.size() / static_cast<std::size_t>(ep * etp);
  std::vector<std::int64_t> ordered;
  for (std::int64_t peer = 0; peer < etp; ++peer) {
    std::int64_t rows = 0;
    for (std::int64_t sender = 0; sender < ep; ++sender) {
      const auto block =
          received.subspan(static_cast<std::size_t>(sender * etp + peer) * local, local);
      ordered.insert(ordered.end(), block.begin(), block.end());
      rows += sum_of(block);
      if (peer == self) out.received_rows.push_back(sum_of(block));
    }
    out.gathered_rows.push_back(rows);
  }
  return ordered;
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

AxisGroup ExpertGroup::all() const {
  std::vector<int> axes = ep_axes;
  axes.insert(axes.end(), etp_axes.begin(), etp_axes.end());
  return {mesh, std::move(axes)};
}
std::int64_t ExpertGroup::ep_size() const { return size_along(mesh, ep_axes); }
std::int64_t ExpertGroup::etp_size() const { return size_along(mesh, etp_axes); }

Dispatched dispatch(const DTensor& x_TD, const DTensor& ids_TK, const DTensor& counts_E,
                    const ExpertGroup& group) {
  Runtime& runtime = x_TD.runtime();
  const std::int64_t num_experts = counts_E.size(0);
  const std::int64_t top_k = ids_TK.size(1);
  Dispatched out;
  out.slot_N = sort_by_key(reshape(ids_TK, {x_TD.size(0) * top_k}), num_experts).first;
  std::vector<std::int64_t> tokens;
  for (const std::int64_t slot : values_of(out.slot_N)) tokens.push_back(slot / top_k);
  out.token_N = indices(runtime, tokens);
  const DTensor sorted_ND = index_select(x_TD, 0, out.token_N);

  const std::vector<std::int64_t> experts = experts_by_rank(num_experts, group.ep_size());
  const std::vector<std::int64_t> received = exchange_counts(counts_E, group, experts);
  std::span<const std::int64_t> counts = values_of(counts_E);
  for (const std::int64_t held : experts) {
    out.sent_rows.push_back(sum_of(counts.first(static_cast<std::size_t>(held))));
    counts = counts.subspan(static_cast<std::size_t>(held));
  }
  const std::vector<std::int64_t> ordered = count_rows(out, received, group);
  DTensor received_RD = all_to_all_v(sorted_ND, out.sent_rows, out.received_rows, group.ep());
  if (!group.etp_axes.empty()) {
    received_RD = all_gather_rows(received_RD, out.gathered_rows, group.etp());
  }

  const ExpertOrder order = expert_order(ordered, group.ep_size() * group.etp_size());
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
                const ExpertGroup& group) {
  Runtime& runtime = y_RD.runtime();
  const std::int64_t num_tokens = weights_TK.size(0);
  DTensor back_RD = index_select(y_RD, 0, dispatched.restore_R);
  if (!group.etp_axes.empty()) {
    back_RD = reduce_scatter_rows(back_RD, dispatched.gathered_rows, group.etp());
  }
  const DTensor returned_ND =
      all_to_all_v(back_RD, dispatched.received_rows, dispatched.sent_rows, group.ep());
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
