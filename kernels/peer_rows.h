// kernels/peer_rows.h: rows that a rank moves between its own memory and that of others, one by one
// and straight to their places: tokens to the rows of their experts, and back as sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/array.h"
#include "kernels/host_device.h"
#include "kernels/row_lists.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// A place is a row of one peer's buffer; −1 is none.
inline constexpr int kPeerRowBits = 40;
TSR_HOST_DEVICE constexpr std::int64_t peer_place(std::int64_t peer, std::int64_t row) {
  return peer << kPeerRowBits | row;
}
TSR_HOST_DEVICE constexpr std::int64_t peer_of(std::int64_t place) { return place >> kPeerRowBits; }
TSR_HOST_DEVICE constexpr std::int64_t row_of(std::int64_t place) {
  return place & ((std::int64_t{1} << kPeerRowBits) - 1);
}

/// One rank's rows, dense, in memory that the kernel's device reaches.
struct PeerBuffer {
  std::byte* data = nullptr;
  std::int64_t rows = 0;
};
/// Those of all ranks, of one dtype and as wide as the tokens.
struct PeerBuffers {
  std::span<const PeerBuffer> peers;
  DType dtype = DType::kF32;
  /// The peer that a place names and the next ones, so many in all, have that row alike.
  std::int64_t copies = 1;
  /// On a device: where it is not 0 once the kernel runs, all places are taken for none. Null: it
  /// is not asked for.
  const std::int64_t* broken_off = nullptr;
};
/// As many as a device's kernel is told of.
inline constexpr int kMostPeers = 64;

// Shapes: tokens [T, D], weights and places (I64) [T, K], all dense; weights may be null (all 1),
// else of the type of sums: F64 for F64 rows and F32 for others. Tokens and sums have the buffers'
// dtype or the type of sums. Each runs on `stream` of the context's device.
// Errors: InvalidArgument for other shapes or dtypes, or more than kMostPeers on a device;
// OutOfRange for a place outside of the buffers, before anything is written; on a device that is
// noted for Device::raise_faults(), and the place taken for none.

/// Row place[t, k] = weights[t, k] · tokens[t], in all its copies. No two places are the same.
void put_peer_rows(KernelContext& ctx, const Array& tokens_TD, const Array& weights_TK,
                   const Array& place_TK, const PeerBuffers& to, Stream& stream);
/// out[t] = Σ_k weights[t, k] · row place[t, k], k ascending. Copies of a row are summands of it:
/// added in order of their peers in the type of sums, then rounded to the buffers' dtype.
void sum_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& weights_TK,
                   const Array& place_TK, const Array& out_TD, Stream& stream);
/// out[t, k] = tokens[t] · row place[t, k], of copies as above; 0 without a place. out_TK: of the
/// type of sums.
void dot_peer_rows(KernelContext& ctx, const PeerBuffers& from, const Array& tokens_TD,
                   const Array& place_TK, const Array& out_TK, Stream& stream);

/// How rows lie with all peers, as each of them finds for itself: by expert, within an expert by
/// sender.
struct PeerLayout {
  Array counts_PSE;         ///< I64, any strides: rows of each expert from sender p · S + s
  std::int64_t sender = 0;  ///< this rank, among those
  /// Expert e lies with peer e / experts_per_peer · copies and the next ones.
  std::int64_t experts_per_peer = 1;
  std::int64_t copies = 1;
  std::int64_t own = 0;  ///< experts from own · experts_per_peer on are this rank's
  KeySize size = {};     ///< of each expert's rows
  /// Rows that each peer's buffer has; what is beyond is left out.
  std::int64_t room = kAnyNumber;
};
/// Dense lists.
struct PeerLists {
  Array place_S;  ///< of each slot of this rank's tokens; −1 where slots_N does not name it
  Array
      counts_e;  ///< rows of each of its own experts, added ones included, as far as there is room
  Array filled_e;  ///< of these, those that somebody puts there
  /// One number: rows that come for this rank, with room or not, without added ones.
  Array came_1;
};
/// `slots_N`: this rank's slots in order of their experts, as many as its counts say; what comes
/// behind them is not looked at.
/// Errors: FailedPrecondition naming an expert with more rows than `size` allows.
void lay_out_peers(KernelContext& ctx, const PeerLayout& layout, const Array& slots_N,
                   const PeerLists& out);
/// Zeros in the rows of `out_RD` that nobody fills: each expert has counts_e rows, of which the
/// first filled_e are left as they are; behind the last expert's all are cleared.
void clear_unfilled_rows(KernelContext& ctx, const Array& counts_e, const Array& filled_e,
                         const Array& out_RD);

/// What one rank gives in put_peer_rows(), where another reads it.
struct PutSource {
  const std::byte* tokens_TD = nullptr;
  const std::byte* weights_TK = nullptr;  ///< null: all 1
  const std::int64_t* place_TK = nullptr;
  std::int64_t tokens = 0;
};
/// put_peer_rows() turned round, on the processor: `own` takes what all ranks put into its buffer,
/// from where it lies with them.
struct PutTaker {
  std::span<const PutSource> sources;
  DType tokens = DType::kF32;
  std::int64_t top_k = 1;
  std::int64_t own = 0;
  std::int64_t copies = 1;
};
void take_put_rows(KernelContext& ctx, const PutTaker& from, const Array& out_RD);

}  // namespace kernels
}  // namespace tessera
