// strategies/verify/verify_mutate.h: rules with one clause dropped, widened or changed: what a
// prover must tell from the rule. Internal to strategies/.
#pragma once

#include <string>
#include <vector>

#include "strategies/rules/rule.h"

namespace tessera {

struct Mutant {
  std::string change;  ///< "r! dropped", "lin A: as mono A"
  std::string rule;
};
/// Each differs from `rule` in one place; texts that equal an earlier one are left out.
std::vector<Mutant> mutants_of(const Rule& rule);
/// A rule in the notation that parse_rule() reads.
std::string to_text(const Rule& rule);

}  // namespace tessera
