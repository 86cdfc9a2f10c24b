// program/findings/explain_value.h: why a value lies where it does: the chain of what gave it its
// placement, back to where one was first chosen, and what would remove the moves on the way.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "program/findings/finding.h"

namespace tessera TSR_API {

struct Cause {
  enum class Kind : std::uint8_t { kDeclared, kRow, kMove, kRegion };
  Kind kind = Kind::kRow;
  std::string value;       ///< that it made
  std::string placements;  ///< of that value: "(S(0), R)", "plain", "free"
  std::string text;        ///< "matmul(x R, w S(1)) by its row n"
  std::string module, site;
  std::optional<StepPhase> phase;
  bool implicit = false;         ///< kMove: nobody wrote it
  Volume bytes;                  ///< received in one round
  std::string fix;               ///< kMove: what would remove it; "" where nothing is known
  std::int64_t saved_bytes = 0;  ///< by it, in one round, by the rank with most
};

struct CauseChain {
  std::string value;
  std::vector<Cause> causes;    ///< the value's own first, where a placement was chosen last
  std::vector<Cause> moved_on;  ///< redistributions of the value itself, for those who use it
  std::int64_t others = 0;      ///< results of other calls of that op, where an op was asked for
};

/// `subject`: a value, or an op or region: its first result. Of several operands the one is
/// followed that is cut or summed on an axis on which the result is; the first where none is.
/// Errors: NotFound with the nearest names.
StatusOr<CauseChain> explain_value(const Program& program, const OpTable& ops,
                                   std::string_view subject);

}  // namespace tessera
