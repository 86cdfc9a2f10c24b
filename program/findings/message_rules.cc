// Collectives that could be other ones, or fewer, and reads that wait for a device.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "program/findings/rules.h"
#include "program/findings/texts.h"
#include "strategies/rules/row_pattern.h"

namespace tessera {
namespace {

constexpr std::int64_t kSmallBytes = 64 << 10;  // below, a message's latency outweighs its bytes
constexpr std::size_t kFewMessages = 3;
constexpr std::size_t kMaxKinds = 64;  // of messages that are under way at once

/// The axis on which a step takes a value from Partial to R; -1 for any other step.
int reduced_axis(const Spec& from, const Spec& to) {
  int reduced = -1;
  for (int axis = 0; axis < from.mesh().ndim(); ++axis) {
    const RowEntry before = entry_of(from, axis), after = entry_of(to, axis);
    if (before == after) continue;
    const bool whole = before.kind == RowEntry::Kind::kPartial &&
                       after.kind == RowEntry::Kind::kReplicate && reduced < 0;
    if (!whole) return -1;
    reduced = axis;
  }
  return reduced;
}

/// The dim on which `user` cuts a whole value on that axis by a redistribution; -1 where it does
/// something else with it.
int cut_by(FindingContext& context, int user, const Spec& whole, int axis) {
  if (!std::holds_alternative<MoveStep>(context.step(user).step->what)) return -1;
  const Spec* to = context.spec(context.step(user).makes.at(0));
  if (to == nullptr || !(to->mesh() == whole.mesh())) return -1;
  for (int other = 0; other < whole.mesh().ndim(); ++other) {
    if (other != axis && !(entry_of(*to, other) == entry_of(whole, other))) return -1;
  }
  const RowEntry entry = entry_of(*to, axis);
  return entry.kind == RowEntry::Kind::kShard ? entry.dim : -1;
}

/// A dim on which `user` could run on pieces, one result, nothing moved: norms, pointwise ops.
int piecewise(FindingContext& context, int user, int value, const Spec& whole, int axis) {
  const auto* call = std::get_if<CallStep>(&context.step(user).step->what);
  if (call == nullptr || context.step(user).makes.size() != 1) return -1;
  const Op* op = context.op(*call);
  const std::optional<Attrs> attrs = context.attrs(*call);
  if (op == nullptr || !attrs) return -1;
  for (int dim = 0; dim < whole.ndim(); ++dim) {
    if (whole.global_shape()[static_cast<std::size_t>(dim)] < whole.mesh().size(axis)) continue;
    const RowEntry cut = {.kind = RowEntry::Kind::kShard, .dim = dim};
    const StatusOr<Spec> piece = Spec::make(whole.mesh(), whole.global_shape(), whole.dtype(),
                                            with_entry(whole.layout(), axis, cut));
    if (!piece.ok()) continue;
    std::vector<const Spec*> specs;
    for (const int operand : context.operands(user)) {
      specs.push_back(operand == value ? &*piece : context.spec(operand));
    }
    const StatusOr<Resolution> resolved = propagate(*op, specs, *attrs);
    if (!resolved.ok() || resolved->outputs.size() != 1) continue;
    const bool moves = std::any_of(resolved->moved_bytes.begin(), resolved->moved_bytes.end(),
                                   [](std::int64_t bytes) { return bytes > 0; });
    const Spec& out = resolved->outputs[0];
    if (!moves && out.global_shape() == whole.global_shape() && entry_of(out, axis) == cut) {
      return dim;
    }
  }
  return -1;
}

}  // namespace

Status find_all_reduce_splits(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const StepNode& node = context.step(i);
    if (!std::holds_alternative<MoveStep>(node.step->what) || node.reads.empty()) continue;
    const int out = node.makes.at(0);
    const Spec* from = context.spec(node.reads[0]);
    const Spec* to = context.spec(out);
    if (from == nullptr || to == nullptr || !(from->mesh() == to->mesh())) continue;
    const int axis = reduced_axis(*from, *to);
    const std::vector<int>& users = context.value(out).users;
    if (axis < 0 || to->ndim() == 0 || users.empty() || users.size() > 16) continue;
    Finding finding = context.start("all-reduce-splits", i);
    if (finding.bytes.total == 0 || !context.is_first(finding)) {
      if (finding.bytes.total > 0) context.add(std::move(finding), i);
      continue;
    }
    std::set<int> cuts, pieces;
    for (const int user : users) {
      cuts.insert(cut_by(context, user, *to, axis));
      const int dim = piecewise(context, user, out, *to, axis);
      if (dim >= 0) pieces.insert(dim);
    }
    const std::string label = to->mesh().axis_label(axis);
    const bool only_cut = cuts.size() == 1 && *cuts.begin() >= 0;
    if (!only_cut && (pieces.size() != 1 || users.size() > 1)) continue;
    const int dim = only_cut ? *cuts.begin() : *pieces.begin();
    const RowEntry cut = {.kind = RowEntry::Kind::kShard, .dim = dim};
    const StatusOr<Spec> piece = Spec::make(to->mesh(), to->global_shape(), to->dtype(),
                                            with_entry(to->layout(), axis, cut));
    if (!piece.ok()) continue;
    const PairCost& scattered = context.pair(*context.value(node.reads[0]).value, *from, *piece);
    if (!scattered.known) continue;
    if (only_cut) {
      finding.cause = absl::StrFormat("%s; every user cuts the result to S(%d) on %s",
                                      moves_text(context.moves(i)), dim, label);
      finding.fix =
          "redistribute to " + placements_text(&*piece) + ": " + moves_text(scattered.moves);
      finding.saved_bytes = finding.bytes.max - scattered.bytes.max;
      if (*finding.saved_bytes <= 0) continue;
    } else {
      const auto& call = std::get<CallStep>(context.step(users[0]).step->what);
      finding.severity = Severity::kNote;
      finding.cause = absl::StrFormat("%s, and then %s does the same work on every rank of %s",
                                      moves_text(context.moves(i)), call.op, label);
      finding.fix = absl::StrFormat(
          "reduce_scatter to S(%d), %s on the pieces, all_gather behind it: as many bytes, in two "
          "parts that can run beside other work",
          dim, call.op);
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

Status find_small_messages(FindingContext& context) {
  struct Run {
    std::vector<int> steps;
    std::set<int> results;
    CheckedInt max = 0, total = 0;
  };
  std::map<std::string, Run> runs;
  const auto close = [&context](Run& run) {
    if (run.steps.size() >= kFewMessages) {
      Finding finding = context.start("small-messages", run.steps[0]);
      finding.bytes = {run.max.clamped(), run.total.clamped()};
      const auto number = run.steps.size();
      finding.measure = absl::StrFormat("%d calls", number);
      finding.cause = absl::StrFormat(
          "%d times %s over %s, %s together, and none waits for another", number,
          finding.collective, absl::StrJoin(finding.axes, ","), byte_text(finding.bytes.max, 1));
      finding.fix =
          absl::StrFormat("one call in their place: the latency of %d is saved", number - 1);
      context.add(std::move(finding), run.steps[0]);
    }
    run = {};
  };
  int body = 0;
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const StepNode& node = context.step(i);
    if (node.body != body) {
      for (auto& [key, run] : runs) close(run);
      body = node.body;
    }
    for (auto& [key, run] : runs) {
      const bool waits = std::any_of(node.reads.begin(), node.reads.end(),
                                     [&run = run](int read) { return run.results.contains(read); });
      if (waits) close(run);
    }
    const Volume bytes = context.bytes(i);
    if (bytes.max == 0 || bytes.max > kSmallBytes) continue;
    if (std::holds_alternative<CallStep>(node.step->what)) continue;  // inside of an op's kernel
    std::string key;
    for (const ProgramMove& move : context.moves(i)) {
      key += move.collective + " " + absl::StrJoin(move.axes, ",") + " ";
    }
    if (runs.size() == kMaxKinds && !runs.contains(key)) continue;
    Run& run = runs[key];
    run.steps.push_back(i);
    run.results.insert(node.makes.begin(), node.makes.end());
    run.max += bytes.max;
    run.total += bytes.total;
  }
  for (auto& [key, run] : runs) close(run);
  return absl::OkStatus();
}

Status find_host_reads(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const auto* read = std::get_if<HostReadStep>(&context.step(i).step->what);
    if (read == nullptr) continue;
    Finding finding = context.start("host-read", i);
    finding.value = read->value;
    finding.op = read->why.empty() ? "host_read" : read->why;
    if (context.is_first(finding)) {
      finding.cause = absl::StrFormat("the host waits for %s of %s%s", byte_text(read->bytes, 1),
                                      read->value, read->why.empty() ? "" : ": " + read->why);
      finding.fix = "keep it on the device, or read it later, once for all";
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

}  // namespace tessera
