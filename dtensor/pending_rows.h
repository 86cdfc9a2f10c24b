// dtensor/pending_rows.h: row exchanges inside regions that are begun now and finished later, so
// that other work of the rank lies between. In the backward pass the order turns round: the
// gradient's exchange begins where the forward one was finished.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dtensor/local_map.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Where rows of this rank's tokens lie in buffers that the ranks of a group have, which reach each
/// other's memory (runtime/call/communicator.h, PeerRows).
struct PeerPlaces {
  DTensor place_TK;       ///< I64, kernels::peer_place()
  std::int64_t rows = 0;  ///< of this rank's buffer
  std::int64_t copies = 1;
  std::vector<std::int64_t> buffer_rows = {};  ///< see PeerRows
  /// Of the buffer, which rows somebody fills (kernels::clear_unfilled_rows()). Undefined: all.
  DTensor counts_e = {}, filled_e = {};
  /// See PeerRows.
  std::vector<std::int64_t> rows_of_tokens = {}, rows_of_buffer = {};
};

/// How rows (dim 0) move among the ranks of a group.
struct RowMove {
  enum class Kind : std::uint8_t {
    kAllToAll,
    kAllGather,
    kReduceScatter,
    kPut,  ///< each token to its places; the buffer's other rows are zeros
    kAdd   ///< to each token the sum of the rows at its places, copies summed first, k ascending
  };
  Kind kind = Kind::kAllToAll;
  AxisGroup group;
  /// kAllToAll: rows to each rank; else the rows of each rank.
  std::vector<std::int64_t> send = {};
  std::vector<std::int64_t> recv = {};  ///< kAllToAll only: rows from each rank

  std::shared_ptr<const PeerPlaces> peers = {};  ///< kPut, kAdd

  /// The move of the cotangent.
  RowMove reversed() const;
};

/// A move under way. Finish each once, in the order of their beginning where they share a group.
class PendingRows {
 public:
  PendingRows() = default;
  /// The rows; waits for them. Throws Error as Work::wait().
  DTensor finish();
  bool defined() const noexcept { return landing_.defined(); }

 private:
  friend PendingRows begin_move(const DTensor& x, const RowMove& move, const Site& site);
  friend PendingRows begin_sum(const DTensor& rows_RD, const DTensor& weights_TK,
                               const RowMove& move, DType out, const Site& site);
  struct Call;
  struct Exchange;
  struct BeginNode;
  struct FinishNode;
  struct Sum;
  struct BeginSumNode;
  struct FinishSumNode;

  DTensor landing_;  ///< where rows arrive; valid once the work is over
  std::shared_ptr<Call> call_;
  std::shared_ptr<Exchange> exchange_;  ///< null where nothing is recorded, or of a sum
  std::shared_ptr<Sum> sum_;            ///< of begin_sum(); null where nothing is recorded
};

/// Begins `move` of a plain tensor. Errors: InvalidArgument where the rows do not fit.
PendingRows begin_move(const DTensor& x, const RowMove& move, const Site& site = Site::current());

/// Begins Σ_k weights[t, k] · row at place[t, k] by a move of kAdd, in the weights' precision and
/// of dtype `out`: the rows' or the weights'.
PendingRows begin_sum(const DTensor& rows_RD, const DTensor& weights_TK, const RowMove& move,
                      DType out, const Site& site = Site::current());

/// begin_move() and finish().
DTensor move_rows(const DTensor& x, const RowMove& move, const Site& site = Site::current());

}  // namespace tessera
