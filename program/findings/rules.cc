// The table of rules: a line each. docs/findings.md has a section for each name.
#include "program/findings/rules.h"

#include <algorithm>

namespace tessera {

std::string_view name_of(Severity severity) noexcept {
  constexpr std::string_view kNames[] = {"note", "warn", "fail"};
  return kNames[static_cast<int>(severity)];
}

const std::vector<FindingRule>& finding_rules() {
  static const std::vector<FindingRule> rules = {
      {"implicit-move", "A redistribution that nobody wrote: an op needed its operand elsewhere",
       Severity::kWarn, find_implicit_moves},
      {"above-bound", "A redistribution that moves more than its two placements ask for",
       Severity::kWarn, find_moves_above_bound},
      {"gather-then-slice", "A value is gathered, and then cut: one move would do", Severity::kWarn,
       find_gathers_then_slices},
      {"repeated-move", "The same value is moved to the same placement twice", Severity::kWarn,
       find_repeated_moves},
      {"all-reduce-splits",
       "An all_reduce where a reduce_scatter would do, or with a gather could overlap",
       Severity::kWarn, find_all_reduce_splits},
      {"small-messages", "Small collectives in a row that a bucket would join", Severity::kWarn,
       find_small_messages},
      {"replicated-work", "Ranks along an axis compute the same product", Severity::kWarn,
       find_replicated_work},
      {"uneven-cut", "A dim is cut into pieces of unequal size: ranks wait", Severity::kWarn,
       find_uneven_cuts},
      {"host-read", "The host waits for a value of the device", Severity::kWarn, find_host_reads},
      {"lacks-reduction", "A value that ranks have each their own of is used as if they agreed",
       Severity::kFail, find_missing_reductions},
      {"missing-gradient-placement", "A parameter is placed, its gradient is not", Severity::kFail,
       find_missing_gradient_placements},
      {"unsound-source", "A row of the source framework that is known to give wrong values",
       Severity::kFail, find_unsound_rows},
      {"peak-memory", "A rank holds more than the budget allows", Severity::kFail, nullptr},
      {"unmapped-op", "An op that the table does not have: what it needs is not known",
       Severity::kNote, find_unmapped_ops},
      {"unplaced-move", "A redistribution of a value without placements: not counted",
       Severity::kNote, find_unplaced_moves},
      {"region-warning", "What the tracer says of a region", Severity::kWarn, find_region_warnings},
      {"program-warning", "What the tracer says of the whole program", Severity::kNote,
       find_program_warnings}};
  return rules;
}

const FindingRule* find_rule(std::string_view name) noexcept {
  const std::vector<FindingRule>& rules = finding_rules();
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [name](const FindingRule& rule) { return rule.name == name; });
  return found == rules.end() ? nullptr : &*found;
}

double Findings::ratio() const noexcept {
  if (bound.total == 0)
    return bounded_bytes.total == 0 ? 1 : static_cast<double>(bounded_bytes.total);
  return static_cast<double>(bounded_bytes.total) / static_cast<double>(bound.total);
}

}  // namespace tessera
