// tools/placement_audit/row_texts.h: the rows of an op spelled out, as one of its samples gives
// them on one mesh axis.
#pragma once

#include <string>

#include "strategies/rules/op.h"

namespace tessera::audit {

struct SpelledRows {
  std::string on;    ///< "[8, 6], [6, 4], dim=1": the sample
  std::string text;  ///< a line for each reason: "m  S(0), R -> S(0)"; empty: all R only
};
/// Of a rule's op all rows but the last, all R; of another's those placements of its operands, one
/// or two of them not R, with which nothing moves.
SpelledRows spell_rows(const Op& op);

}  // namespace tessera::audit
