// program/findings/check.h: findings and limits together: whether a program passes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/api.h"
#include "program/findings/finding.h"

namespace tessera TSR_API {

/// A limit of a budget, and what the program has.
struct LimitCheck {
  std::string name;         ///< "implicit-bytes", "bytes of layers.*", "ratio-to-bound"
  std::string seen, limit;  ///< as text: "3.2 GiB", "0 B"
  bool passed = true;
};

struct CheckReport {
  Findings findings;  ///< without those of a baseline where only new ones are asked for
  std::vector<LimitCheck> limits;
  std::int64_t known_before = 0;  ///< findings that are left out: the baseline has them
  /// No limit is passed and no finding is as severe as what fails.
  bool passed = true;
  std::string first;  ///< one line: what to do first
};

}  // namespace tessera
