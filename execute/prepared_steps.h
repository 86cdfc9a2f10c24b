// execute/prepared_steps.h: the steps of a program made ready for a rank: specs, resolved calls,
// functions of regions, and where each value ends. Internal to execute/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "dtensor/stated_step.h"
#include "execute/program_run.h"
#include "program/round_scope.h"
#include "strategies/rules/op.h"

namespace tessera {

/// A step as written; one for all rounds of the repeats around it, whose values are alike.
struct PreparedStep {
  std::string place;  ///< "/steps/3/steps/0"
  /// Values that it reads, in order, as written; null: a number, or an optional operand that is
  /// absent.
  std::vector<const std::string*> reads;
  std::map<std::size_t, DTensor> numbers;  ///< by their places among `reads`
  std::vector<const ProgramValue*> makes;
  std::vector<Spec> specs;  ///< of what it makes
  std::optional<StatedStep> call;
  std::optional<StatedMove> move;
  RegionFunction region;  ///< its own copy
};

/// A value's end: after the step of that number, rounds written out.
struct ValueEnd {
  std::int64_t after = 0;
  std::string name;  ///< its own
};

struct PreparedProgram {
  std::vector<WantedValue> wanted;
  absl::flat_hash_map<const AnyStep*, PreparedStep> steps;
  std::vector<ValueEnd> ends;  ///< in order
  /// What is left after the last step: the name under which it is returned, and its own.
  std::vector<std::pair<std::string, std::string>> left;
};

/// `program` must stay where it is. Errors: those of ProgramRun::make().
StatusOr<PreparedProgram> prepare(Runtime& runtime, const Program& program,
                                  const RegionTable& regions);

/// Calls take(step) for each step but repeats, in the order in which they run. Stops at an error.
template <class Take>
Status walk(const std::vector<AnyStep>& steps, RoundScope& scope, const Take& take) {
  for (const AnyStep& step : steps) {
    const auto* repeat = std::get_if<RepeatStep>(&step.what);
    if (repeat == nullptr) {
      TSR_RETURN_IF_ERROR(take(step));
      continue;
    }
    scope.begin(*repeat);
    for (std::int64_t round = 0; round < repeat->count; ++round) {
      scope.begin_round(*repeat, round);
      TSR_RETURN_IF_ERROR(walk(repeat->steps, scope, take));
      TSR_RETURN_IF_ERROR(scope.end_round(*repeat));
    }
    scope.end();
  }
  return absl::OkStatus();
}

}  // namespace tessera
