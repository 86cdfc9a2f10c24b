// program/findings/what_if.h: what a program would move were one of its values placed otherwise, or
// one of its ops run by another row: the search for what mends a move. Internal to
// program/findings/.
#pragma once

#include <optional>
#include <string>

#include "program/findings/context.h"

namespace tessera {

struct Remedy {
  std::string text;  ///< "place w as S(1) on tp: 0 B here, reduce_scatter over tp, 25 MiB later"
  std::int64_t saved_bytes = 0;  ///< by the rank with most, in one round; more than 0
};

/// The best of: another placement of a parameter or input from which the value that `move` takes
/// elsewhere follows, and another row of the op that needs it or of those that lead to it. Every
/// op behind the change is propagated anew by the proven table, up to a few dozen; what is still
/// placed otherwise then moves back, so that no saving is promised that is not there. None where
/// nothing saves anything. Cost: O(1) propagations, some thousand at most.
std::optional<Remedy> remedy_for(FindingContext& context, int move);

}  // namespace tessera
