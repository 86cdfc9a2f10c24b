// program/findings/diff.h: what one program moves and holds, and another does not: for the comment
// on a change.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "program/findings/finding.h"

namespace tessera TSR_API {

/// Moves of one kind in equal modules, before and after.
struct MoveChange {
  enum class Kind : std::uint8_t { kNew, kGone, kLarger, kSmaller };
  Kind kind = Kind::kNew;
  std::string module;  ///< a path in which numbers are "*"
  std::string collective;
  std::vector<std::string> axes;
  bool implicit = false;
  std::int64_t calls_before = 0, calls_after = 0;
  Volume before, after;  ///< bytes received in a step
};
std::string_view name_of(MoveChange::Kind kind) noexcept;

/// One stage's rank with most.
struct MemoryChange {
  std::optional<int> stage;
  std::int64_t held_before = 0, held_after = 0;  ///< before the first step
  std::int64_t peak_before = 0, peak_after = 0;
};

struct ProgramDiff {
  Volume bytes_before, bytes_after;
  Volume implicit_before, implicit_after;
  std::vector<MoveChange> moves;     ///< those that change most bytes first
  std::vector<MemoryChange> memory;  ///< stages that hold more or less
  std::vector<Finding> new_findings, gone_findings;
  bool empty() const noexcept {
    return moves.empty() && memory.empty() && new_findings.empty() && gone_findings.empty();
  }
};

/// Errors: those of find_all() and memory_of().
StatusOr<ProgramDiff> diff_programs(const Program& before, const Program& after,
                                    const OpTable& ops);

}  // namespace tessera
