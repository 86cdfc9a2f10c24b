// program/implicit_moves.h: what a program whose values all have placements has to move, though
// nobody wrote it: operands on their way to an op's row, and results on theirs to where they are
// declared.
#pragma once

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// Axes of more than one rank: the search for rows takes longer with each of them.
inline constexpr int kMaxMovedAxes = 8;

/// The program with these moves as steps of their own, marked implicit. For each call whose
/// operands are placed: of the op's rows those by which operands and results together receive the
/// fewest bytes (estimate_moved_bytes()), found axis by axis, twice; a value that was moved before
/// serves again. Results without placements take those that the rows give, and a round of a repeat
/// ends where the next one begins. A call that no row takes, or whose mesh has more than
/// kMaxMovedAxes axes, becomes a region that says why; one of operands without placements stays as
/// it is. What a lowering moves inside of an op is not said. Requires a program as read_program()
/// gives it. Cost: O(calls · axes · rows) propagations.
Program with_moves(Program program, const OpTable& ops);

}  // namespace tessera
