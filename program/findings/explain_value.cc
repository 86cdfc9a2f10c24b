#include "program/findings/explain_value.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/nearest_names.h"
#include "program/findings/context.h"
#include "program/findings/texts.h"
#include "program/findings/what_if.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxCauses = 200;
constexpr std::size_t kMaxNames = 20'000;  // among which the nearest are looked for

class Explainer {
 public:
  Explainer(const Program& program, const OpTable& ops) : context_(program, ops) {}

  StatusOr<CauseChain> run(std::string_view subject) {
    CauseChain chain;
    int value = context_.find_value(subject);
    if (value < 0) {
      TSR_ASSIGN_OR_RETURN(value, result_of(subject, chain.others));
    }
    chain.value = context_.value(value).value->name;
    for (const int user : context_.value(value).users) {
      if (std::holds_alternative<MoveStep>(context_.step(user).step->what)) {
        chain.moved_on.push_back(cause_of(context_.step(user).makes.at(0)));
      }
    }
    absl::flat_hash_set<int> seen;
    while (value >= 0 && chain.causes.size() < kMaxCauses && seen.insert(value).second) {
      chain.causes.push_back(cause_of(value));
      const Cause& cause = chain.causes.back();
      const bool chosen = cause.kind == Cause::Kind::kDeclared ||
                          cause.kind == Cause::Kind::kRegion ||
                          (cause.kind == Cause::Kind::kMove && !cause.implicit);
      // A placement that was asked for is a beginning, unless it is the first link: why it had to
      // be asked for lies before it.
      if (chosen && (chain.causes.size() > 1 || cause.kind == Cause::Kind::kDeclared)) break;
      value = source_of(value);
    }
    return chain;
  }

 private:
  StatusOr<int> result_of(std::string_view op, std::int64_t& others) const {
    int first = -1;
    for (const StepNode& node : context_.steps()) {
      if (node.makes.empty() || name_of_step(node) != op) continue;
      if (first < 0) {
        first = node.makes[0];
      } else {
        ++others;
      }
    }
    if (first >= 0) return first;
    std::vector<std::string> names;
    for (const ValueNode& each : context_.values()) {
      names.push_back(each.value->name);
      if (names.size() == kMaxNames) break;
    }
    return not_found("no value or op " + in_quotes(op) + "; " + nearest_names(op, names));
  }

  static std::string_view name_of_step(const StepNode& node) {
    if (const auto* call = std::get_if<CallStep>(&node.step->what)) return call->op;
    if (const auto* region = std::get_if<RegionStep>(&node.step->what)) return region->name;
    return "";
  }

  std::string placed(int value) {
    const ProgramValue& what = *context_.value(value).value;
    if (!what.mesh) {
      return what.varies.empty() ? "plain"
                                 : "plain, varies over " + absl::StrJoin(what.varies, ",");
    }
    return placements_text(context_.spec(value));
  }

  Cause cause_of(int value) {
    const ValueNode& node = context_.value(value);
    Cause cause;
    cause.value = node.value->name;
    cause.placements = placed(value);
    if (node.made_by < 0) {
      cause.kind = Cause::Kind::kDeclared;
      cause.module = node.value->module;
      cause.text =
          absl::StrFormat("%s, placed so before the step", std::string(name_of(node.value->role)));
      return cause;
    }
    const AnyStep& step = *context_.step(node.made_by).step;
    cause.module = step.origin.module;
    cause.site = step.origin.site;
    cause.phase = step.origin.phase;
    cause.bytes = context_.bytes(node.made_by);
    if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      add_move(node.made_by, *move, cause);
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      cause.kind = Cause::Kind::kRegion;
      cause.text = "region " + region->name + operands_text(node.made_by) + ", which declares it";
    } else if (const auto* call = std::get_if<CallStep>(&step.what)) {
      cause.text = call->op + operands_text(node.made_by) + row_text(node.made_by, *call);
    }
    return cause;
  }

  void add_move(int step, const MoveStep& move, Cause& cause) {
    cause.kind = Cause::Kind::kMove;
    cause.implicit = move.implicit;
    cause.text = absl::StrFormat(
        "%s moves %s from %s: %s", move.implicit ? "the engine" : "the code", move.value,
        placed(context_.step(step).reads.at(0)), moves_text(context_.moves(step)));
    if (!move.needed_by.empty()) cause.text += ", for " + move.needed_by;
    if (cause.bytes.max == 0) return;
    if (const std::optional<Remedy> remedy = remedy_for(context_, step)) {
      cause.fix = remedy->text;
      cause.saved_bytes = remedy->saved_bytes;
    } else if (move.implicit) {
      cause.fix = advice_for(move.needed_by.substr(0, move.needed_by.find('.')));
    }
  }

  /// "(x R, w S(1))"
  std::string operands_text(int step) {
    std::vector<std::string> texts;
    for (const int read : context_.step(step).reads) {
      texts.push_back(context_.value(read).value->name + " " + placed(read));
      if (texts.size() == 6) break;
    }
    const std::size_t all = context_.step(step).reads.size();
    if (all > texts.size()) texts.push_back(absl::StrFormat("and %d more", all - texts.size()));
    return "(" + absl::StrJoin(texts, ", ") + ")";
  }

  /// The rows of the table that take these operands to these results, by axis.
  std::string row_text(int step, const CallStep& call) {
    if (!call.row.empty()) return " by its row " + call.row;
    const Op* op = context_.op(call);
    const std::optional<Attrs> attrs = context_.attrs(call);
    const std::vector<int>& made = context_.step(step).makes;
    const Spec* out = made.empty() ? nullptr : context_.spec(made[0]);
    if (op == nullptr || !attrs || out == nullptr || out->mesh().ndim() == 0) return "";
    std::vector<TensorMeta> metas;
    std::vector<const Spec*> specs;
    for (const int operand : context_.operands(step)) {
      specs.push_back(context_.spec(operand));
      metas.push_back(specs.back() == nullptr
                          ? TensorMeta{.absent = true}
                          : TensorMeta{specs.back()->global_shape(), specs.back()->dtype()});
    }
    std::vector<std::string> texts;
    for (int axis = 0; axis < out->mesh().ndim(); ++axis) {
      const StatusOr<std::vector<Row>> rows = rows_of(*op, metas, *attrs, out->mesh().size(axis));
      if (!rows.ok()) return "";
      const auto fits = std::find_if(rows->begin(), rows->end(), [&](const Row& row) {
        if (row.outputs.empty() || !(row.outputs[0] == entry_of(*out, axis))) return false;
        for (std::size_t i = 0; i < specs.size() && i < row.inputs.size(); ++i) {
          if (specs[i] == nullptr || specs[i]->mesh().ndim() <= axis) continue;
          if (!(row.inputs[i] == entry_of(*specs[i], axis))) return false;
        }
        return true;
      });
      if (fits != rows->end()) {
        texts.push_back(to_string(*fits) + " (" + fits->why + ") on " +
                        out->mesh().axis_label(axis));
      }
    }
    return texts.empty() ? "" : " by its row " + absl::StrJoin(texts, ", ");
  }

  /// The operand whose placement decides that of a value; -1 at a beginning.
  int source_of(int value) {
    const int made_by = context_.value(value).made_by;
    if (made_by < 0) return -1;
    const std::vector<int>& reads = context_.step(made_by).reads;
    if (reads.empty()) return -1;
    const Spec* out = context_.spec(value);
    for (int axis = 0; out != nullptr && axis < out->mesh().ndim(); ++axis) {
      if (entry_of(*out, axis).kind == RowEntry::Kind::kReplicate) continue;
      for (const int read : reads) {
        const Spec* spec = context_.spec(read);
        if (spec != nullptr && spec->mesh() == out->mesh() &&
            entry_of(*spec, axis).kind != RowEntry::Kind::kReplicate) {
          return read;
        }
      }
    }
    return reads[0];
  }

  FindingContext context_;
};

}  // namespace

StatusOr<CauseChain> explain_value(const Program& program, const OpTable& ops,
                                   std::string_view subject) {
  return Explainer(program, ops).run(subject);
}

}  // namespace tessera
