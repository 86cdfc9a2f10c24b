// strategies/verify/verify_complete.h: is every row that running the op finds a row of its rule, or
// declined with a reason? Internal to strategies/.
#pragma once

#include <string>
#include <vector>

#include "strategies/verify/verify_search.h"

namespace tessera {

/// A row that was found right and that the op neither has nor declines.
struct MissingRow {
  std::string row;     ///< "P(max), R -> P(max)"
  std::string sample;  ///< the first on which it was found
  bool operator==(const MissingRow&) const = default;
};
struct Completeness {
  std::int64_t rows_found = 0;  ///< distinct, over all samples
  std::int64_t rows_declined = 0;
  std::vector<MissingRow> missing;
  /// Texts of OpDef::declined that do not parse or that no found row needs; axis sizes that no
  /// sample is large enough for.
  std::vector<std::string> complaints;
};
Completeness judge_completeness(const Op& op, const std::vector<SampleRows>& found);

/// The rows of a sample that the op lacks, declined or not; Partial operands of whose values no
/// result depends are none that a rule must name.
std::vector<FoundRow> rows_lacking(const Op& op, const SampleRows& sample);
/// "P(max), R -> P(max)"
std::string to_string(const FoundRow& row);

}  // namespace tessera
