// strategies/verify/verify_mutants.h: would the prover notice if a rule were wrong? Every clause of
// the rule is dropped, widened or changed, and each mutant has to be refuted.
#pragma once

#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/verify/verify.h"

namespace tessera TSR_API {

struct MutantSurvivor {
  std::string change;  ///< "lin A: as aff"
  std::string rule;
  std::string reason;  ///< why nothing refutes it
};
struct MutantReport {
  std::int64_t refuted = 0;
  std::int64_t equivalent = 0;  ///< the same rows on every sample: no other rule
  std::vector<MutantSurvivor> survivors;
};
/// Counts `more` in.
void add(MutantReport more, MutantReport& report);
/// A mutant is refuted if the table does not take it, if a row that it adds is wrong on a sample,
/// or if it lacks a row that the search finds. An op without a rule has none.
MutantReport judge_mutants(const Op& op, const VerifyOptions& options = {});

}  // namespace tessera
