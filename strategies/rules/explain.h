// strategies/rules/explain.h: why a call runs as it does: what each row would cost on each mesh
// axis, who would have to move for it, and which operand, placed otherwise, would make the call
// cheaper. Pure, like propagate(): reads specs only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

/// An operand that a row wants elsewhere on its axis.
struct RowNeed {
  int operand = 0;
  std::string name;
  RowEntry have, want;
  std::int64_t bytes = 0;  ///< estimate over all ranks, with the chosen rows on the other axes
  bool written = false;    ///< by the op, in place: it may not move
};
/// A row on one axis, with the chosen rows on the others.
struct RowOffer {
  int axis = 0;  ///< of the mesh
  Row row;
  bool chosen = false;
  std::int64_t bytes = 0;      ///< of all operands; kNever where no move leads there
  std::vector<RowNeed> needs;  ///< empty: all operands stand right on this axis

  static constexpr std::int64_t kNever = INT64_MAX;
};
/// One operand placed otherwise on one axis, and what the whole call would move then.
struct Wish {
  int operand = 0;
  std::string name;
  int axis = 0;
  RowEntry want;
  std::int64_t bytes = 0;  ///< fewer than the call moves now
  std::string why;         ///< of the rows that would be chosen
};
/// Why an operand cannot stay as it is.
struct Obstacle {
  int operand = 0;
  std::string name;
  int axis = 0;
  std::string why;
};

struct Explanation {
  Resolution chosen;
  std::int64_t bytes = 0;           ///< that `chosen` moves, estimated over all ranks
  Mesh mesh;                        ///< of the call; its axes number the rows
  std::vector<RowOffer> offers;     ///< by axis, then bytes; none for an op without a rule
  std::vector<Wish> wishes;         ///< the best of each operand, fewest bytes first
  std::vector<Obstacle> obstacles;  ///< of operands that move and that no row keeps
};

/// Errors: those of propagate().
StatusOr<Explanation> explain(const Op& op, std::span<const Spec* const> inputs, const Attrs& attrs,
                              std::span<const ForcedRow> forced = {});

}  // namespace tessera
