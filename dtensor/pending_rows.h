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

/// How rows (dim 0) move among the ranks of a group.
struct RowMove {
  enum class Kind : std::uint8_t { kAllToAll, kAllGather, kReduceScatter };
  Kind kind = Kind::kAllToAll;
  AxisGroup group;
  /// kAllToAll: rows to each rank; else the rows of each rank.
  std::vector<std::int64_t> send = {};
  std::vector<std::int64_t> recv = {};  ///< kAllToAll only: rows from each rank

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
  struct Call;
  struct Exchange;
  struct BeginNode;
  struct FinishNode;

  DTensor landing_;  ///< where rows arrive; valid once the work is over
  std::shared_ptr<Call> call_;
  std::shared_ptr<Exchange> exchange_;  ///< null where nothing is recorded
};

/// Begins `move` of a plain tensor. Errors: InvalidArgument where the rows do not fit.
PendingRows begin_move(const DTensor& x, const RowMove& move, const Site& site = Site::current());

/// begin_move() and finish().
DTensor move_rows(const DTensor& x, const RowMove& move, const Site& site = Site::current());

}  // namespace tessera
