// program/findings/texts.h: words that findings share. Internal to program/findings/.
#pragma once

#include <string>
#include <vector>

#include "program/findings/finding.h"

namespace tessera {

/// "all_gather over tp, 3.0 KiB" for each move, with " and " between.
std::string moves_text(const std::vector<ProgramMove>& moves);
/// Sums over the moves, held at 2^63.
Volume sum_of(const std::vector<ProgramMove>& moves);
/// "(S(0), R)", or the layout's levels; "free" where there is none.
std::string placements_text(const Spec* spec);
/// How one axis of a mesh holds it: "S(0)".
std::string placement_on(const Spec& spec, int axis);

}  // namespace tessera
