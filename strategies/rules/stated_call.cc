// How it is found. Placements on one mesh axis leave few rows of the rule: those whose entries are
// the operands' and the results' own. Combinations of these, one a mesh axis, are tried in the
// order of the rule; what propagation makes of each has to be what was stated, orders of cuts
// included, and be called as stated. An op with a function of its own offers ways to run as a
// whole, of which those that fit are kept.
#include "strategies/rules/stated_call.h"

#include <algorithm>
#include <vector>

#include "strategies/rules/in_place.h"
#include "strategies/rules/offers.h"
#include "strategies/rules/search.h"

namespace tessera {
namespace {

/// Combinations of rows that are tried: placements leave one or two an axis.
constexpr int kMostCombinations = 4096;

std::string_view row_of(std::string_view text) { return text.substr(0, text.find(';')); }

bool same(const Spec* stated, const Spec& is) { return stated == nullptr || *stated == is; }

bool fits(const StatedCall& stated, std::span<const Spec> inputs, std::span<const Spec> outputs) {
  return inputs.size() == stated.inputs.size() && outputs.size() == stated.outputs.size() &&
         std::ranges::equal(stated.inputs, inputs, same) &&
         std::ranges::equal(stated.outputs, outputs, same);
}

bool is_called(const StatedCall& stated, std::string_view why) {
  return stated.row.empty() || row_of(stated.row) == row_of(why);
}

std::string list_of(std::span<const Spec* const> specs) {
  std::string text;
  for (const Spec* spec : specs) {
    if (spec == nullptr) continue;
    text += (text.empty() ? "" : ", ") + placements_text(*spec);
  }
  return text;
}

std::string list_of(std::span<const Spec> specs) {
  std::vector<const Spec*> pointers;
  for (const Spec& spec : specs) pointers.push_back(&spec);
  return list_of(std::span<const Spec* const>(pointers));
}

/// What the call would do, where it does not do what was stated.
class Refusal {
 public:
  Refusal(const Op& op, const StatedCall& stated, const Attrs& attrs)
      : op_(op), stated_(stated), attrs_(attrs) {}

  /// A way to run with these placements, under another name.
  void note_name(const std::string& why) {
    const std::string name(row_of(why));
    if (std::ranges::find(names_, name) == names_.end()) names_.push_back(name);
  }

  Status status(const Resolution& free) const {
    std::string text = op_.def.name + ": ";
    if (!names_.empty()) {
      text += "with these placements it runs as ";
      for (std::size_t i = 0; i < names_.size(); ++i)
        text += (i == 0 ? "" : ", or as ") + names_[i];
      text += ", not as '" + std::string(row_of(stated_.row)) + "'";
    } else {
      text += "no row takes its operands as they lie and gives " + list_of(stated_.outputs) +
              "; by itself it runs as " + free.why + ", from " + list_of(free.inputs) + " to " +
              list_of(free.outputs);
    }
    const Mesh& mesh = free.outputs[0].mesh();
    return failed_precondition(text + ". [" + describe_call(op_, stated_.inputs, attrs_, mesh) +
                               "]");
  }

 private:
  const Op& op_;
  const StatedCall& stated_;
  const Attrs& attrs_;
  std::vector<std::string> names_;
};

std::vector<TensorMeta> metas_of(std::span<const Spec* const> specs) {
  std::vector<TensorMeta> metas;
  for (const Spec* spec : specs) {
    metas.push_back(spec == nullptr ? TensorMeta{.absent = true}
                                    : TensorMeta{spec->global_shape(), spec->dtype()});
  }
  return metas;
}

Status check_outputs(const Op& op, const StatedCall& stated, const Resolution& free) {
  if (stated.outputs.size() != free.outputs.size()) {
    return invalid_argument(op.def.name + ": it has " + std::to_string(free.outputs.size()) +
                            " results, not " + std::to_string(stated.outputs.size()));
  }
  for (std::size_t o = 0; o < stated.outputs.size(); ++o) {
    const Spec &is = free.outputs[o], &wanted = *stated.outputs[o];
    if (is.global_shape() == wanted.global_shape() && is.dtype() == wanted.dtype()) continue;
    return invalid_argument(op.def.name + ": result " + std::to_string(o) + " is " +
                            std::string(name_of(is.dtype())) + to_string(is.global_shape()) +
                            ", not " + std::string(name_of(wanted.dtype())) +
                            to_string(wanted.global_shape()));
  }
  return absl::OkStatus();
}

/// Rows that leave everything where it is on one axis.
std::vector<std::int16_t> rows_that_stay(const Call& call, std::size_t axis) {
  const auto stays = [&](const CompactRow& row) {
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i].spec == nullptr) continue;
      if (!(call.operands[i].cut.entries[axis] == row.inputs[i])) return false;
    }
    for (std::size_t o = 0; o < call.wanted.size(); ++o) {
      if (!(call.wanted[o].cut.entries[axis] == row.outputs[o])) return false;
    }
    return true;
  };
  std::vector<std::int16_t> rows;
  for (std::size_t r = 0; r < call.rows.size(); ++r) {
    if (stays(call.rows[r])) rows.push_back(static_cast<std::int16_t>(r));
  }
  return rows;
}

/// The next combination, the last axis first; false after the last one.
bool advance(std::vector<std::size_t>& at, const std::vector<std::vector<std::int16_t>>& of) {
  for (std::size_t a = at.size(); a-- > 0;) {
    if (++at[a] < of[a].size()) return true;
    at[a] = 0;
  }
  return false;
}

StatusOr<Resolution> by_rows(const Op& op, const StatedCall& stated, const Attrs& attrs,
                             const Resolution& free) {
  const Mesh& mesh = free.outputs[0].mesh();
  TSR_ASSIGN_OR_RETURN(Call call, make_call(op, metas_of(stated.inputs), attrs, mesh));
  const auto fixed = [&](const Spec* spec) {
    CallOperand operand = operand_of(call, spec);
    operand.fixed = true;
    return operand;
  };
  for (const Spec* spec : stated.inputs) call.operands.push_back(fixed(spec));
  for (const Spec* spec : stated.outputs) call.wanted.push_back(fixed(spec));
  Refusal refusal(op, stated, attrs);
  std::vector<std::vector<std::int16_t>> rows;
  bool any = true;
  for (std::size_t a = 0; a < call.axis_sizes.size(); ++a) {
    any &= !rows.emplace_back(rows_that_stay(call, a)).empty();
  }
  std::vector<std::size_t> at(rows.size(), 0);
  for (int tried = 0; any && tried < kMostCombinations; ++tried) {
    call.forced.clear();
    for (std::size_t a = 0; a < at.size(); ++a) call.forced.push_back({rows[a][at[a]]});
    const SearchResult found = search(call);
    if (found.found > 0) {
      TSR_ASSIGN_OR_RETURN(Resolution resolution, resolve(call, found.best[0]));
      if (fits(stated, resolution.inputs, resolution.outputs)) {
        if (is_called(stated, resolution.why)) return resolution;
        refusal.note_name(resolution.why);
      }
    }
    any = advance(at, rows);
  }
  return refusal.status(free);
}

StatusOr<Resolution> by_offers(const Op& op, const StatedCall& stated, const Attrs& attrs,
                               const Resolution& free) {
  Op filtered;  // the same op, offering only what was stated
  filtered.def = op.def;
  filtered.rule = op.rule;
  filtered.in_place = op.in_place;
  Refusal refusal(op, stated, attrs);
  bool any = false;
  filtered.def.strategies = [&](std::span<const Spec* const> given,
                                std::span<const TensorMeta> results,
                                const Attrs& own) -> StatusOr<std::vector<Strategy>> {
    TSR_ASSIGN_OR_RETURN(std::vector<Strategy> all, op.def.strategies(given, results, own));
    std::vector<Strategy> kept;
    for (Strategy& each : all) {
      if (!fits(stated, each.inputs, each.outputs)) continue;
      if (is_called(stated, each.why)) {
        kept.push_back(std::move(each));
      } else {
        refusal.note_name(each.why);
      }
    }
    any = !kept.empty();
    return any ? std::move(kept) : std::move(all);
  };
  StatusOr<Resolution> resolution = propagate(filtered, stated.inputs, attrs);
  if (resolution.ok() && any) return resolution;
  return refusal.status(free);
}

}  // namespace

StatusOr<Resolution> propagate_stated(const Op& op, const StatedCall& stated, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(Resolution free, propagate(op, stated.inputs, attrs));
  TSR_RETURN_IF_ERROR(check_outputs(op, stated, free));
  const bool is_plain = free.outputs[0].mesh().ndim() == 0;
  if (fits(stated, free.inputs, free.outputs) && (is_plain || is_called(stated, free.why))) {
    return free;
  }
  if (is_plain) {
    return failed_precondition(op.def.name + ": of plain operands its results are plain, not " +
                               list_of(stated.outputs));
  }
  return op.def.strategies != nullptr ? by_offers(op, stated, attrs, free)
                                      : by_rows(op, stated, attrs, free);
}

}  // namespace tessera
