#include "program/findings/diff.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "placement/checked_int.h"
#include "program/memory.h"

namespace tessera {
namespace {

using ChangeKey = std::tuple<std::string, std::string, std::vector<std::string>, bool>;
struct BothSums {
  CheckedInt calls[2] = {0, 0}, max[2] = {0, 0}, total[2] = {0, 0};
};

void add_sums(const Findings& findings, int side, std::map<ChangeKey, BothSums>& sums) {
  for (const MoveSum& each : findings.sums) {
    BothSums& sum = sums[{group_of_layers(each.module), each.collective, each.axes, each.implicit}];
    sum.calls[side] += each.calls;
    sum.max[side] += each.bytes.max;
    sum.total[side] += each.bytes.total;
  }
}

std::vector<MoveChange> changes_of(const Findings& before, const Findings& after) {
  std::map<ChangeKey, BothSums> sums;
  add_sums(before, 0, sums);
  add_sums(after, 1, sums);
  std::vector<MoveChange> changes;
  for (const auto& [key, sum] : sums) {
    MoveChange change;
    std::tie(change.module, change.collective, change.axes, change.implicit) = key;
    change.calls_before = sum.calls[0].clamped();
    change.calls_after = sum.calls[1].clamped();
    change.before = {sum.max[0].clamped(), sum.total[0].clamped()};
    change.after = {sum.max[1].clamped(), sum.total[1].clamped()};
    if (change.before == change.after && change.calls_before == change.calls_after) continue;
    change.kind =
        change.calls_before == 0  ? MoveChange::Kind::kNew
        : change.calls_after == 0 ? MoveChange::Kind::kGone
        : change.before.total < change.after.total || (change.before.total == change.after.total &&
                                                       change.calls_before < change.calls_after)
            ? MoveChange::Kind::kLarger
            : MoveChange::Kind::kSmaller;
    changes.push_back(std::move(change));
  }
  std::stable_sort(changes.begin(), changes.end(), [](const MoveChange& a, const MoveChange& b) {
    const auto moved = [](const MoveChange& each) {
      return std::max(each.before.max, each.after.max) - std::min(each.before.max, each.after.max);
    };
    return moved(a) > moved(b);
  });
  return changes;
}

struct Held {
  std::int64_t start = 0, peak = 0;
};
StatusOr<std::map<int, Held>> held_by_stage(const Program& program, const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(const std::vector<StageMemory> stages, memory_of(program, ops));
  std::map<int, Held> held;
  for (const StageMemory& each : stages) {
    Held& most = held[each.stage.value_or(-1)];
    most.start = std::max(most.start, each.start_bytes);
    most.peak = std::max(most.peak, each.peak_bytes);
  }
  return held;
}

/// Findings of `all` whose places are not among those of `others`.
std::vector<Finding> findings_without(const Findings& all, const Findings& others) {
  std::set<std::string> ids;
  for (const Finding& finding : others.all) ids.insert(finding.id);
  std::vector<Finding> left;
  for (const Finding& finding : all.all) {
    if (!ids.contains(finding.id)) left.push_back(finding);
  }
  return left;
}

}  // namespace

std::string_view name_of(MoveChange::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"new", "gone", "larger", "smaller"};
  return kNames[static_cast<int>(kind)];
}

StatusOr<ProgramDiff> diff_programs(const Program& before, const Program& after,
                                    const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(const Findings found_before, find_all(before, ops));
  TSR_ASSIGN_OR_RETURN(const Findings found_after, find_all(after, ops));
  ProgramDiff diff;
  diff.bytes_before = found_before.bytes;
  diff.bytes_after = found_after.bytes;
  diff.implicit_before = found_before.implicit_bytes;
  diff.implicit_after = found_after.implicit_bytes;
  diff.moves = changes_of(found_before, found_after);
  diff.new_findings = findings_without(found_after, found_before);
  diff.gone_findings = findings_without(found_before, found_after);
  TSR_ASSIGN_OR_RETURN(auto held_before, held_by_stage(before, ops));
  TSR_ASSIGN_OR_RETURN(auto held_after, held_by_stage(after, ops));
  std::set<int> stages;
  for (const auto& [stage, held] : held_before) stages.insert(stage);
  for (const auto& [stage, held] : held_after) stages.insert(stage);
  for (const int stage : stages) {
    const Held was = held_before[stage], is = held_after[stage];
    if (was.start == is.start && was.peak == is.peak) continue;
    diff.memory.push_back({.stage = stage < 0 ? std::nullopt : std::optional(stage),
                           .held_before = was.start,
                           .held_after = is.start,
                           .peak_before = was.peak,
                           .peak_after = is.peak});
  }
  return diff;
}

}  // namespace tessera
