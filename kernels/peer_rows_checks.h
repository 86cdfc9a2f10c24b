// kernels/peer_rows_checks.h: what the kernels of peer_rows.h ask of their operands, on every
// device. Errors: InvalidArgument, naming the kernel.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/peer_rows.h"
#include "kernels/row_lists_checks.h"
#include "kernels/row_sums_checks.h"

namespace tessera::kernels {

inline DType sum_type_of(DType rows) { return rows == DType::kF64 ? DType::kF64 : DType::kF32; }

/// `tokens_TD`: tokens or their sums.
inline void check_peer_rows(const char* kernel, const PeerBuffers& buffers, const Array& tokens_TD,
                            const Array& weights_TK, const Array& place_TK) {
  const bool fits = tokens_TD.ndim() == 2 && tokens_TD.is_contiguous() && place_TK.ndim() == 2 &&
                    place_TK.size(0) == tokens_TD.size(0);
  const bool weighs = weights_TK.is_null() || (weights_TK.shape() == place_TK.shape() &&
                                               weights_TK.dtype() == sum_type_of(buffers.dtype) &&
                                               weights_TK.is_contiguous());
  check_place_list(kernel, place_TK);
  if (!fits || !weighs) {
    throw Error(invalid_argument(absl::StrFormat(
        "%s: tokens %s, weights %s, places %s; wanted contiguous [T, D], [T, K] of %s and [T, K]",
        kernel, to_string(tokens_TD.shape()),
        weights_TK.is_null() ? "none" : to_string(weights_TK.shape()), to_string(place_TK.shape()),
        name_of(sum_type_of(buffers.dtype)))));
  }
  const std::int64_t peers = std::ssize(buffers.peers);
  if (buffers.copies >= 1 && peers >= 1 && peers % buffers.copies == 0) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: %d copies of a row among %d peers", kernel, buffers.copies, peers)));
}
inline void check_dots(const PeerBuffers& buffers, const Array& place_TK, const Array& out_TK) {
  if (out_TK.shape() == place_TK.shape() && out_TK.dtype() == sum_type_of(buffers.dtype) &&
      out_TK.is_contiguous()) {
    return;
  }
  throw Error(invalid_argument(
      absl::StrFormat("dot_peer_rows: the result %s %s; wanted contiguous %s of %s",
                      name_of(out_TK.dtype()), to_string(out_TK.shape()),
                      to_string(place_TK.shape()), name_of(sum_type_of(buffers.dtype)))));
}

/// Whether all copies of the place lie in the buffers. `place` ≥ 0.
TSR_HOST_DEVICE inline bool is_in(std::int64_t place, const PeerBuffer* peers, std::int64_t count,
                                  std::int64_t copies) {
  const std::int64_t first = peer_of(place);
  if (first + copies > count) return false;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    if (row_of(place) >= peers[first + copy].rows) return false;
  }
  return true;
}
/// About a place that is neither −1 nor in the buffers.
inline Status peer_place_outside(const char* kernel, std::int64_t place, std::int64_t position) {
  if (place < 0) {
    return out_of_range(
        absl::StrFormat("%s: place %d at position [%d]; no row is -1", kernel, place, position));
  }
  return out_of_range(
      absl::StrFormat("%s: row %d of peer %d at position [%d] lies outside of the "
                      "peers' buffers",
                      kernel, row_of(place), peer_of(place), position));
}

inline void check_peer_layout(const PeerLayout& layout, const Array& slots_N,
                              const PeerLists& out) {
  constexpr const char* kName = "lay_out_peers";
  require_counts(kName, layout.counts_PSE, 3);
  require_list(kName, "slots", slots_N, {slots_N.num_elements()});
  require_list(kName, "places", out.place_S, {out.place_S.num_elements()});
  require_list(kName, "counts", out.counts_e, {out.counts_e.num_elements()});
  require_list(kName, "filled rows", out.filled_e, out.counts_e.shape());
  require_list(kName, "the number of rows that come", out.came_1, {1});
  if (layout.size.alignment < 1) {
    throw Error(invalid_argument("lay_out_peers: the alignment must be positive"));
  }
  const std::int64_t experts = layout.counts_PSE.size(2),
                     senders = layout.counts_PSE.size(0) * layout.counts_PSE.size(1),
                     first = layout.own * layout.experts_per_peer;
  if (layout.sender >= 0 && layout.sender < senders && layout.experts_per_peer >= 1 &&
      layout.own >= 0 && out.counts_e.num_elements() <= layout.experts_per_peer &&
      layout.copies >= 1 &&
      (out.counts_e.num_elements() == 0 || first + out.counts_e.num_elements() <= experts)) {
    return;
  }
  throw Error(invalid_argument(
      absl::StrFormat("%s: sender %d of %d, experts [%d, %d) of %d, %d a peer, %d copies", kName,
                      layout.sender, senders, first, first + out.counts_e.num_elements(), experts,
                      layout.experts_per_peer, layout.copies)));
}
/// Of rows [first, first + rows) of a peer's buffer, those that there is room for.
TSR_HOST_DEVICE inline std::int64_t rows_with_room(std::int64_t room, std::int64_t first,
                                                   std::int64_t rows) {
  if (room < 0) return rows;
  const std::int64_t rest = room - first;
  return rest < 0 ? 0 : rest < rows ? rest : rows;
}
inline Status too_many_expert_rows(std::int64_t expert, std::int64_t rows, std::int64_t room) {
  return failed_precondition(
      absl::StrFormat("lay_out_peers: expert %d has %d rows, but room for %d", expert, rows, room));
}
inline void check_unfilled_rows(const Array& counts_e, const Array& filled_e, const Array& out_RD) {
  constexpr const char* kName = "clear_unfilled_rows";
  require_list(kName, "counts", counts_e, {counts_e.num_elements()});
  require_list(kName, "filled rows", filled_e, counts_e.shape());
  if (out_RD.ndim() == 2 && out_RD.is_contiguous()) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: %s; wanted contiguous [R, D]", kName, to_string(out_RD.shape()))));
}

}  // namespace tessera::kernels
