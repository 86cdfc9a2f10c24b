// moe/dispatch.h: tokens to the ranks that hold their experts, and back, inside a region of plain
// tensors. Rows are sorted by expert, exchanged along ep, gathered along etp, put in expert order,
// and return the same way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dtensor/local_map.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// How many of `num_experts` each ep rank holds: chunks of the ceiling, the last short or empty (as
/// Shard cuts them).
std::vector<std::int64_t> experts_by_rank(std::int64_t num_experts, std::int64_t ep);

/// From rank-major to expert-major rows. `counts` holds, for each sender, the rows per local
/// expert.
struct ExpertOrder {
  std::vector<std::int64_t>
      source_R;  ///< row r in expert order comes from received row source_R[r]
  std::vector<std::int64_t> counts_e;  ///< rows per local expert
};
ExpertOrder expert_order(std::span<const std::int64_t> counts, std::int64_t num_senders);

/// The ranks that share one set of experts: a mesh and its axes that cut experts and their hidden
/// dim. Every rank has tokens of its own.
struct ExpertGroup {
  Mesh mesh;
  std::vector<int> ep_axes;
  std::vector<int> etp_axes = {};

  AxisGroup ep() const { return {mesh, ep_axes}; }
  AxisGroup etp() const { return {mesh, etp_axes}; }
  AxisGroup all() const;
  std::int64_t ep_size() const;
  std::int64_t etp_size() const;
};

/// One dispatch, as combine() needs it back.
struct Dispatched {
  DTensor rows_RD;                          ///< this rank's rows, by local expert
  DTensor counts_e;                         ///< I64
  DTensor slot_N;                           ///< sorted row n belongs to routing slot token·K + k
  DTensor token_N;                          ///< … of this token
  DTensor source_R;                         ///< as in ExpertOrder
  DTensor restore_R;                        ///< its inverse
  std::vector<std::int64_t> sent_rows;      ///< per ep rank
  std::vector<std::int64_t> received_rows;  ///< per ep rank
  std::vector<std::int64_t> gathered_rows;  ///< per etp rank
};

/// Shapes: x_TD, ids_TK (I64), counts_E (I64, this rank's). Collective: two all-to-all-v (counts
/// among all, rows along ep) and one all-gather along etp; one host read of the counts. A group of
/// one rank moves nothing.
Dispatched dispatch(const DTensor& x_TD, const DTensor& ids_TK, const DTensor& counts_E,
                    const ExpertGroup& group);
/// Σ over a token's experts of weight · row, in score precision, added in a fixed order. Shapes:
/// y_RD in expert order (under etp a summand each), weights_TK → (T, D). Collective: one
/// reduce-scatter along etp, one all-to-all-v along ep.
DTensor combine(const DTensor& y_RD, const DTensor& weights_TK, const Dispatched& dispatched,
                const ExpertGroup& group);

}  // namespace tessera
