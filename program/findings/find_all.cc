#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "program/findings/context.h"

namespace tessera {
namespace {

struct Total {
  CheckedInt max = 0, total = 0;
  void add(const Volume& bytes, CheckedInt rounds) {
    max += rounds * bytes.max;
    total += rounds * bytes.total;
  }
  StatusOr<Volume> volume() const {
    const Volume held = {max.clamped(), total.clamped()};
    if (CheckedInt(held.max) == max && CheckedInt(held.total) == total) return held;
    return out_of_range("the program's moves come to more than 2^63 bytes");
  }
};

using SumKey = std::tuple<std::string, std::string, std::vector<std::string>, bool>;
struct MoveTotalOf {
  CheckedInt calls = 0;
  Total bytes;
};

Status add_totals(FindingContext& context, Findings& findings) {
  Total all, implicit, bound, bounded;
  CheckedInt reads = 0, unplaced = 0;
  std::map<SumKey, MoveTotalOf> sums;
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const StepNode& node = context.step(i);
    const Volume bytes = context.bytes(i);
    all.add(bytes, node.rounds);
    const auto* moved = std::get_if<MoveStep>(&node.step->what);
    for (const ProgramMove& each : context.moves(i)) {
      MoveTotalOf& sum = sums[{node.step->origin.module, each.collective, each.axes,
                               moved != nullptr && moved->implicit}];
      sum.calls += node.rounds;
      sum.bytes.add(each.bytes, node.rounds);
    }
    if (std::holds_alternative<HostReadStep>(node.step->what)) reads += node.rounds;
    const auto* move = std::get_if<MoveStep>(&node.step->what);
    if (move == nullptr || node.reads.empty()) continue;
    if (move->implicit) implicit.add(bytes, node.rounds);
    const Spec* from = context.spec(node.reads[0]);
    const Spec* to = context.spec(node.makes.at(0));
    if (from == nullptr || to == nullptr) {
      if (!move->moves) unplaced += node.rounds;
      continue;
    }
    const PairCost& best = context.pair(*context.value(node.reads[0]).value, *from, *to);
    if (!best.known) continue;
    bound.add(best.bound, node.rounds);
    bounded.add(bytes, node.rounds);
  }
  TSR_ASSIGN_OR_RETURN(findings.bytes, all.volume());
  TSR_ASSIGN_OR_RETURN(findings.implicit_bytes, implicit.volume());
  TSR_ASSIGN_OR_RETURN(findings.bound, bound.volume());
  TSR_ASSIGN_OR_RETURN(findings.bounded_bytes, bounded.volume());
  for (const auto& [key, sum] : sums) {
    const auto& [module, collective, axes, is_implicit] = key;
    TSR_ASSIGN_OR_RETURN(const Volume bytes, sum.bytes.volume());
    findings.sums.push_back({.module = module,
                             .collective = collective,
                             .axes = axes,
                             .implicit = is_implicit,
                             .calls = sum.calls.clamped(),
                             .bytes = bytes});
  }
  findings.host_reads = reads.clamped();
  findings.unplaced_moves = unplaced.clamped();
  return absl::OkStatus();
}

}  // namespace

StatusOr<Findings> find_all(const Program& program, const OpTable& ops) {
  FindingContext context(program, ops);
  Findings findings;
  TSR_RETURN_IF_ERROR(add_totals(context, findings));
  for (const FindingRule& rule : finding_rules()) {
    if (rule.find != nullptr) TSR_RETURN_IF_ERROR(rule.find(context));
  }
  TSR_RETURN_IF_ERROR(context.take(findings));
  return findings;
}

}  // namespace tessera
