// program/fold_run.h: one run of equal rounds of steps, tried as a repeat: what each of its reads
// is in every round, and names for what it makes. Internal to program/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "program/program.h"
#include "program/step_shapes.h"

namespace tessera {

inline constexpr std::int64_t kBeforeSteps = -1;  ///< of a value that is there before the first

struct FoldValue {
  std::string name;  ///< as it will be
  std::int64_t step = kBeforeSteps;
  int type = 0;           ///< equal where shape, dtype, mesh and layout are
  bool is_fixed = false;  ///< its name stands in a body, or is declared
};

/// What a step reads and makes, as indices of values, in the order of visit_names().
struct StepUses {
  std::vector<int> reads, makes;
};

/// Steps [begin, begin + count * period), as a repeat.
struct StepRun {
  std::int64_t begin = 0, period = 0, count = 0;
};

/// What is known of a program while it is folded.
struct FoldState {
  const Program* program = nullptr;
  StepShapes shapes;
  std::vector<FoldValue> values;
  std::vector<StepUses> uses;              ///< by step
  std::vector<NumberedPath> paths;         ///< of their modules
  absl::flat_hash_set<std::string> taken;  ///< names

  void rename(int index, const std::string& name) {
    FoldValue& value = values[static_cast<std::size_t>(index)];
    value.name = name;
    value.is_fixed = true;
    taken.insert(name);
  }
};

/// The steps of a run as a repeat, with the values in `state` renamed. None where they are none:
/// `fitting` then is the number of rounds from the first on that may be, where that was found, and
/// `work` grows by what it took to see. Requires count >= 2.
std::optional<RepeatStep> repeat_of(FoldState& state, const StepRun& run, std::int64_t& fitting,
                                    std::int64_t& work);

}  // namespace tessera
