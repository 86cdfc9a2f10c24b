// Redistributions that nobody asked for, or that move more than they need to.
#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "program/findings/rules.h"
#include "program/findings/texts.h"
#include "program/findings/what_if.h"

namespace tessera {
namespace {

constexpr std::int64_t kFewBytes = 64 << 10;
constexpr double kTolerated = 1.25;  // times the lower bound: pieces are padded

const MoveStep* as_move(const FindingContext& context, int step) {
  return std::get_if<MoveStep>(&context.step(step).step->what);
}

/// "split.self is S(1), and is needed as R"
std::string need_text(FindingContext& context, int step, const MoveStep& move) {
  const Spec* from = context.spec(context.step(step).reads.at(0));
  const Spec* to = context.spec(context.step(step).makes.at(0));
  const std::string who = move.needed_by.empty() ? move.value : move.needed_by;
  return absl::StrFormat("%s is %s and is needed as %s", who, placements_text(from),
                         placements_text(to));
}

void suggest(FindingContext& context, int step, Finding& finding) {
  const std::optional<Remedy> remedy = remedy_for(context, step);
  if (!remedy) {
    finding.fix = advice_for(finding.op);
    return;
  }
  finding.fix = remedy->text;
  finding.saved_bytes = remedy->saved_bytes;
}

/// Few bytes are summed in one round in which everybody sends to everybody, for its latency.
bool is_small_sum(const Spec& from, const Volume& bytes) {
  return from.has_partial() && bytes.max <= kFewBytes;
}

}  // namespace

Status find_implicit_moves(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const MoveStep* move = as_move(context, i);
    if (move == nullptr || !move->implicit) continue;
    Finding finding = context.start("implicit-move", i);
    if (finding.bytes.total == 0) continue;  // a local cut
    if (context.is_first(finding)) {
      finding.cause = moves_text(context.moves(i)) + " each: " + need_text(context, i, *move);
      suggest(context, i, finding);
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

Status find_moves_above_bound(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const MoveStep* move = as_move(context, i);
    if (move == nullptr || context.step(i).reads.empty()) continue;
    Finding finding = context.start("above-bound", i);
    const int source = context.step(i).reads[0];
    const Spec* from = context.spec(source);
    const Spec* to = context.spec(context.step(i).makes.at(0));
    if (finding.bytes.total == 0 || from == nullptr || to == nullptr) continue;
    if (is_small_sum(*from, finding.bytes)) continue;
    const PairCost& best = context.pair(*context.value(source).value, *from, *to);
    if (!best.known || static_cast<double>(finding.bytes.total) <=
                           kTolerated * static_cast<double>(best.bound.total)) {
      continue;
    }
    if (context.is_first(finding)) {
      finding.cause =
          absl::StrFormat("%s to %s moves %s in all, where %s would do: %s", placements_text(from),
                          placements_text(to), byte_text(finding.bytes.total, 1),
                          byte_text(best.bound.total, 1), moves_text(context.moves(i)));
      if (best.bytes.max < finding.bytes.max) {
        finding.fix = "the engine's plan: " + moves_text(best.moves);
        finding.saved_bytes = finding.bytes.max - best.bytes.max;
      }
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

Status find_gathers_then_slices(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const MoveStep* move = as_move(context, i);
    if (move == nullptr || context.step(i).reads.empty()) continue;
    const int source = context.step(i).reads[0], gathered = context.step(i).makes.at(0);
    const std::vector<int>& users = context.value(gathered).users;
    if (users.size() != 1) continue;
    const MoveStep* cut = as_move(context, users[0]);
    if (cut == nullptr) continue;
    const Spec* from = context.spec(source);
    const Spec* to = context.spec(context.step(users[0]).makes.at(0));
    if (from == nullptr || to == nullptr) continue;
    const PairCost& direct = context.pair(*context.value(source).value, *from, *to);
    Finding finding = context.start("gather-then-slice", i);
    const std::int64_t now = finding.bytes.max + context.bytes(users[0]).max;
    if (!direct.known || direct.bytes.max >= now) continue;
    if (context.is_first(finding)) {
      finding.cause = absl::StrFormat(
          "%s goes from %s to %s and from there to %s, and nothing else uses what lies between: %s",
          move->value, placements_text(from), placements_text(context.spec(gathered)),
          placements_text(to), moves_text(context.moves(i)));
      finding.fix = absl::StrFormat("redistribute %s to %s at once: %s", move->value,
                                    placements_text(to), moves_text(direct.moves));
      finding.saved_bytes = now - direct.bytes.max;
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

Status find_repeated_moves(FindingContext& context) {
  struct Before {
    int step = -1;
    std::string name;
  };
  std::map<std::pair<int, std::string>, Before> moved;  // by value and target
  std::map<int, std::vector<std::pair<int, std::string>>> of_value;
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const StepNode& node = context.step(i);
    for (const int written : node.writes) {
      for (const auto& key : of_value[written]) moved.erase(key);
      of_value.erase(written);
    }
    const MoveStep* move = as_move(context, i);
    if (move == nullptr || node.reads.empty()) continue;
    Finding finding = context.start("repeated-move", i);
    const Spec* to = context.spec(node.makes.at(0));
    if (finding.bytes.total == 0 || to == nullptr) continue;
    const std::pair<int, std::string> key(node.reads[0], to->to_string());
    const auto found = moved.find(key);
    const bool same_body =
        found != moved.end() && context.step(found->second.step).body == node.body;
    if (!same_body) {
      moved[key] = {i, move->out.name};
      of_value[node.reads[0]].push_back(key);
      continue;
    }
    const StepOrigin& first = context.step(found->second.step).step->origin;
    const bool later = first.phase != node.step->origin.phase;
    // To keep it from one phase to another takes memory all the while: that may be meant.
    if (later) finding.severity = Severity::kNote;
    if (context.is_first(finding)) {
      finding.cause = absl::StrFormat(
          "%s was moved to %s before%s: %s again", move->value, placements_text(to),
          first.site.empty() ? "" : " at " + first.site, moves_text(context.moves(i)));
      finding.fix = absl::StrFormat("use %s%s", found->second.name,
                                    later ? " again, which is held the longer for it" : "");
      finding.saved_bytes = finding.bytes.max;
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

Status find_unplaced_moves(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const MoveStep* move = as_move(context, i);
    if (move == nullptr || move->moves || context.step(i).reads.empty()) continue;
    const int source = context.step(i).reads[0];
    const bool free = context.spec(source) == nullptr;
    if (!free && context.spec(context.step(i).makes.at(0)) != nullptr) continue;
    Finding finding = context.start("unplaced-move", i);
    if (context.is_first(finding)) {
      finding.cause = absl::StrFormat(
          "%s has no placements yet: what its redistribution moves is "
          "not counted",
          free ? move->value : move->out.name);
      finding.fix = "give it placements, or the moves with the step";
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

}  // namespace tessera
