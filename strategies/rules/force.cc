// Rows that a caller asks for: which rows of a rule and which offers of a function they are.

#include <algorithm>

#include "strategies/rules/in_place.h"
#include "strategies/rules/offers.h"
#include "strategies/rules/search.h"

namespace tessera {
namespace {

constexpr std::size_t kMostNamed = 12;

/// A row asked for by its reason ("k:sum"), or in full where it has an arrow.
struct Asked {
  const ForcedRow* forced = nullptr;
  std::optional<RowPattern> pattern;
};

StatusOr<Asked> read(const Op& op, const ForcedRow& forced) {
  Asked asked{.forced = &forced, .pattern = {}};
  if (forced.row.find("->") == std::string::npos) return asked;
  StatusOr<RowPattern> pattern = parse_row(forced.row, op.def.args.size());
  if (!pattern.ok()) {
    return invalid_argument(op.def.name + ": row '" + forced.row + "', as " + forced.by +
                            " asks: " + std::string(message_of(pattern.status())));
  }
  asked.pattern = *std::move(pattern);
  return asked;
}

std::string on_axis(const ForcedRow& forced) {
  return forced.axis.empty() ? std::string() : " on " + forced.axis;
}

Status no_such_row(const Op& op, const ForcedRow& forced, std::vector<std::string> known) {
  std::string list;
  for (std::size_t i = 0; i < known.size() && i < kMostNamed; ++i) {
    list += (i == 0 ? "" : "; ") + known[i];
  }
  if (known.size() > kMostNamed) {
    list += "; and " + std::to_string(known.size() - kMostNamed) + " more";
  }
  return failed_precondition(op.def.name + ": with these operands it has no row '" + forced.row +
                             "', which " + forced.by + " asks for" + on_axis(forced) +
                             "; its rows are: " + list);
}

/// Numbers of the rows of the call that are the one asked for.
StatusOr<std::vector<std::int16_t>> rows_asked_for(const Call& call, const ForcedRow& forced) {
  TSR_ASSIGN_OR_RETURN(const Asked asked, read(*call.op, forced));
  std::vector<std::int16_t> rows;
  std::vector<std::string> known;
  for (std::size_t r = 0; r < call.rows.size(); ++r) {
    const CompactRow& row = call.rows[r];
    const std::string why = why_of(*call.op, call.binding, row);
    const bool fits = asked.pattern ? matches(*asked.pattern, call.inputs, row.inputs, row.outputs)
                                    : why == forced.row;
    if (fits) rows.push_back(static_cast<std::int16_t>(r));
    known.push_back(to_string(expand(*call.op, call.binding, row)) + " (" + why + ")");
  }
  if (rows.empty()) return no_such_row(*call.op, forced, std::move(known));
  return rows;
}

bool any_cut(const Call& call, std::size_t axis) {
  return std::any_of(call.operands.begin(), call.operands.end(), [&](const CallOperand& operand) {
    return operand.spec != nullptr && operand.cut.entries[axis].kind != RowEntry::Kind::kReplicate;
  });
}

/// An axis that is not named counts where the offer cuts something there.
bool runs_as(const Asked& asked, const Mesh& mesh, std::span<const TensorMeta> operands,
             const Strategy& offer) {
  if (!asked.pattern) return offer.why == asked.forced->row;
  bool any = false;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (mesh.size(axis) == 1) continue;
    const OfferedRow row = offered_row(offer, axis);
    const bool named = !asked.forced->axis.empty();
    if (named ? mesh.axis_label(axis) != asked.forced->axis : row.all_replicated()) continue;
    if (!matches(*asked.pattern, operands, row.inputs, row.outputs)) return false;
    any = true;
  }
  return any;
}

bool says_something(const Mesh& mesh, const ForcedRow& forced) {
  if (forced.axis.empty()) return true;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (mesh.size(axis) > 1 && mesh.axis_label(axis) == forced.axis) return true;
  }
  return false;
}

}  // namespace

bool Call::is_forced() const noexcept {
  return std::any_of(forced.begin(), forced.end(), [](const auto& rows) { return !rows.empty(); });
}

Status force_rows(Call& call, std::span<const ForcedRow> forced) {
  if (forced.empty()) return absl::OkStatus();
  call.forced.resize(call.axis_sizes.size());
  for (const ForcedRow& each : forced) {
    for (std::size_t a = 0; a < call.axis_sizes.size(); ++a) {
      const bool wanted = each.axis.empty() ? any_cut(call, a)
                                            : call.mesh.axis_label(call.mesh_axes[a]) == each.axis;
      if (!wanted) continue;
      TSR_ASSIGN_OR_RETURN(call.forced[a], rows_asked_for(call, each));
    }
  }
  return absl::OkStatus();
}

Status force_offers(const Op& op, const Mesh& mesh, std::span<const Spec* const> inputs,
                    std::span<const ForcedRow> forced, std::vector<Strategy>& offers) {
  if (forced.empty()) return absl::OkStatus();
  const std::vector<TensorMeta> operands = given_or_absent(inputs);
  for (const ForcedRow& each : forced) {
    if (!says_something(mesh, each)) continue;
    TSR_ASSIGN_OR_RETURN(const Asked asked, read(op, each));
    std::vector<std::string> known;
    for (const Strategy& offer : offers) {
      if (std::find(known.begin(), known.end(), offer.why) == known.end()) {
        known.push_back(offer.why);
      }
    }
    std::erase_if(offers,
                  [&](const Strategy& offer) { return !runs_as(asked, mesh, operands, offer); });
    if (offers.empty()) return no_such_row(op, each, std::move(known));
  }
  return absl::OkStatus();
}

Status forced_refused(const Call& call, const Attrs& attrs, std::span<const ForcedRow> forced) {
  std::vector<const Spec*> specs;
  for (const CallOperand& operand : call.operands) specs.push_back(operand.spec);
  std::string asked;
  for (const ForcedRow& each : forced) {
    asked += (asked.empty() ? "" : ", ") + each.row + on_axis(each) + " (" + each.by + ")";
  }
  return failed_precondition(
      call.op->def.name + ": the call cannot run as asked for, by " + asked +
      ": what is written in place, out= and 0-d values of other meshes may not move, and P(max) "
      "does not combine with P(min). [" +
      describe_call(*call.op, specs, attrs, call.mesh) + "]");
}

std::string forced_text(const Mesh& mesh, std::span<const ForcedRow> forced) {
  std::string text;
  for (const ForcedRow& each : forced) {
    if (!says_something(mesh, each)) continue;
    text += "; " + each.row + on_axis(each) + " as " + each.by + " asks";
  }
  return text;
}

}  // namespace tessera
