// program/export/value_flow.h: who makes and who reads each value of a placed program, with its
// repeats written out. Internal to program/export/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "program/program.h"

namespace tessera {

inline constexpr std::int64_t kBeforeAll = -1;  ///< the step that makes what is there before any

struct FlowValue {
  ProgramValue value;
  std::int64_t made_by = kBeforeAll;
  int root = 0;  ///< what redistributions made it of: a value that none made
  std::vector<std::int64_t> read_by = {};  ///< steps, each once, redistributions included
};

class ValueFlow {
 public:
  /// Errors: FailedPrecondition naming a value on a mesh that has no placements yet; those of
  /// unfold(). Cost: O(steps of all rounds).
  static StatusOr<ValueFlow> make(const Program& program);

  const Program& program() const noexcept { return program_; }
  const std::vector<FlowValue>& values() const noexcept { return values_; }
  const FlowValue& at(int index) const { return values_[static_cast<std::size_t>(index)]; }
  /// What step `step` reads and makes, in the order of its arguments and results.
  const std::vector<int>& read_at(std::int64_t step) const {
    return reads_[static_cast<std::size_t>(step)];
  }
  const std::vector<int>& made_at(std::int64_t step) const {
    return makes_[static_cast<std::size_t>(step)];
  }
  const AnyStep& step(std::int64_t step) const {
    return program_.steps[static_cast<std::size_t>(step)];
  }
  /// "mm" of a call, a region's name, "redistribute"; "parameter" and the like of what is there.
  std::string maker_of(int index) const;
  /// The value's, or that of the step that makes it.
  const std::string& module_of(int index) const;

 private:
  Status declare(ProgramValue value, std::int64_t step);

  Program program_;
  std::vector<FlowValue> values_;
  std::vector<std::vector<int>> reads_, makes_;
  absl::flat_hash_map<std::string, int> names_;
};

}  // namespace tessera
