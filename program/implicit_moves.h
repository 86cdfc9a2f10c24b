// program/implicit_moves.h: what a program whose values all have placements has to move, though
// nobody wrote it: operands on their way to an op's row, and results on theirs to where they are
// declared.
#pragma once

#include "placement/api.h"
#include "program/program.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// The program with these moves as steps of their own, marked implicit. For each call whose
/// operands are placed: of the op's rows those by which operands and results together receive the
/// fewest bytes (estimate_moved_bytes()), found axis by axis, twice; a value that was moved before
/// serves again. Results without placements take those that the rows give. A call that no row takes
/// becomes a region that says why. Calls with operands without placements, and repeats, stay as
/// they are. Requires a program as read_program() gives it. Cost: O(calls · axes · rows)
/// propagations.
Program with_moves(Program program, const OpTable& ops);

}  // namespace tessera
