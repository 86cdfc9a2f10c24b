// program/findings/what_if.h: what a program would move were one of its values placed otherwise, or
// one of its ops run by another row: the search for what mends a move. Internal to
// program/findings/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "program/findings/context.h"

namespace tessera {

struct Remedy {
  std::string text;  ///< "place w as S(1) on tp: 0 B here, reduce_scatter over tp, 25 MiB later"
  /// By the rank with most, in one round, for each of the moves in equal places that it removes;
  /// more than 0.
  std::int64_t saved_bytes = 0;
};

/// The best of: another placement of a parameter (of an input, where nothing else helps) from which
/// the value that `move` takes elsewhere follows, and another row of the op that needs it or of
/// those that lead to it. Every op behind the change is propagated anew by the proven table, up to
/// a few dozen; what is still placed otherwise then moves back, so that no saving is promised that
/// is not there. None where nothing saves anything. None after 256 searches in a program. On more
/// than 512 ranks bytes are those of estimate_moved_bytes(). Cost: O(1) propagations, some thousand
/// at most.
std::optional<Remedy> remedy_for(FindingContext& context, int move);
/// What helps where an op needs its operand elsewhere and no other placement saves that; "" where
/// nothing is known.
std::string_view advice_for(std::string_view op);

}  // namespace tessera
