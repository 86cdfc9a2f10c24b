// kernels/position_runs.h: one dim's held intervals as a table that host and device look up.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/host_device.h"
#include "kernels/positions.h"

namespace tessera::kernels {

/// An interval and the number of elements held below it.
struct PositionRun {
  std::int64_t start = 0, stop = 0, below = 0;
};

/// The runs of one dim. One run stands here itself; more lie where `more` points.
struct PositionRuns {
  std::int64_t size = 0;   // of the whole dim
  std::int64_t count = 0;  // of elements held
  std::int64_t num_runs = 0;
  PositionRun first = {};
  const PositionRun* more = nullptr;  // all runs, where there are several

  TSR_HOST_DEVICE std::int64_t to_local(std::int64_t position) const {
    const PositionRun* run = &first;
    if (num_runs > 1) {  // the last that begins at or below
      std::int64_t low = 0, high = num_runs;
      while (high - low > 1) {
        const std::int64_t middle = (low + high) / 2;
        (more[middle].start <= position ? low : high) = middle;
      }
      run = more + low;
    }
    if (position < run->start || position >= run->stop) return -1;
    return run->below + position - run->start;
  }
  TSR_HOST_DEVICE std::int64_t to_global(std::int64_t local) const {
    if (num_runs <= 1) return first.start + local;
    std::int64_t low = 0, high = num_runs;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (more[middle].below <= local ? low : high) = middle;
    }
    return more[low].start + local - more[low].below;
  }
};

/// A value of localize()'s input.
struct PositionRule {
  PositionRuns runs;
  std::int64_t least = 0;
  bool skips = false;
  std::int64_t skipped = 0;

  /// False where the value is none of those allowed; else writes the local position.
  TSR_HOST_DEVICE bool apply(std::int64_t value, std::int64_t& local) const {
    local = -1;
    if (skips && value == skipped) return true;
    if (value < least || value >= runs.size) return false;
    local = runs.to_local(value < 0 ? value + runs.size : value);
    return true;
  }
};

/// All runs of a part, for `PositionRuns::more`; none where one run or less says all.
inline std::vector<PositionRun> table_of(const HeldPart& part) {
  std::vector<PositionRun> table;
  if (part.held.size() <= 1) return table;
  std::int64_t below = 0;
  for (const Interval& each : part.held) {
    table.push_back({each.start, each.stop, below});
    below += each.stop - each.start;
  }
  return table;
}
/// `more`: where table_of(part) lies.
inline PositionRuns runs_of(const HeldPart& part, const PositionRun* more) {
  PositionRuns runs{.size = part.size,
                    .count = part.count(),
                    .num_runs = static_cast<std::int64_t>(part.held.size()),
                    .more = more};
  if (!part.held.empty()) runs.first = {part.held.front().start, part.held.front().stop, 0};
  return runs;
}
inline PositionRule rule_of(const PositionRuns& runs, const OtherPositions& others) {
  return {.runs = runs,
          .least = others.from_end ? -runs.size : 0,
          .skips = others.skipped.has_value(),
          .skipped = others.skipped.value_or(0)};
}

/// What localize() and globalize() ask of their arrays. Errors: InvalidArgument.
void check_localize(const Array& positions, const Array& local);
void check_globalize(const Array& local, std::span<const HeldPart> dims, const Array& positions);

}  // namespace tessera::kernels
