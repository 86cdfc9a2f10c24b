// How writes are kept in place. An op that writes an operand, and a result that out= names, may not
// move them: the rank's own memory is what is written. So the search only takes rows that leave
// them as they lie; operands that are only read may still move. Where no row does, the call is
// refused before anything runs, and this file says why in terms that the author can act on: the
// rows there are, the first axis and dim on which they disagree with the placement, and the
// redistribution of the written tensor that would move least. For that the search is run again with
// the written ones free to move.
#include "strategies/rules/in_place.h"

#include <algorithm>
#include <optional>

#include "strategies/rules/search.h"

namespace tessera {
namespace {

using SpecPointers = std::span<const Spec* const>;
constexpr std::size_t kMaxRowsShown = 8;

std::string meta_text(const Shape& shape, DType dtype) {
  return std::string(name_of(dtype)) + to_string(shape);
}

std::string bytes_text(std::int64_t bytes) { return std::to_string(bytes) + " bytes"; }

/// "S(0), R -> S(0); R, R -> R": the rows of the call on one axis of its mesh.
std::string rows_text(const Call& call) {
  std::string text;
  for (std::size_t r = 0; r < call.rows.size(); ++r) {
    if (r == kMaxRowsShown && call.rows.size() > kMaxRowsShown + 1) {
      return text + "; and " + std::to_string(call.rows.size() - r) + " more";
    }
    text += (r > 0 ? "; " : "") + to_string(expand(*call.op, call.binding, call.rows[r]));
  }
  return text;
}

std::string described(const Call& call, const Attrs& attrs) {
  std::vector<const Spec*> specs;
  for (const CallOperand& operand : call.operands) specs.push_back(operand.spec);
  return describe_call(*call.op, specs, attrs, call.mesh);
}

/// Why no row keeps a dim of `operand` (results after inputs) cut.
std::string why_not_cut(const Call& call, int operand, int dim, const std::string& name) {
  const BoundDim& bound = call.binding.operand(operand)[static_cast<std::size_t>(dim)];
  for (int i = 0; i < bound.count; ++i) {
    const Factor& factor =
        call.binding.factors[static_cast<std::size_t>(bound.factors[static_cast<std::size_t>(i)])];
    if (!factor.cuttable) {
      return operand_name(*call.op, factor.unequal.operand) + " has " +
             std::to_string(factor.unequal_size) + " of " + name + "'s " +
             std::to_string(factor.size) + " elements along dim " + std::to_string(dim);
    }
    if (factor.mark != nullptr && factor.mark->whole) {
      return "its rule needs dim " + std::to_string(dim) + " whole";
    }
  }
  return "no row of its rule keeps dim " + std::to_string(dim) + " cut with these operands";
}

std::string why_not_kept(const Call& call, std::size_t input, const RowEntry& now) {
  const std::string name = operand_name(*call.op, static_cast<int>(input));
  switch (now.kind) {
    case RowEntry::Kind::kReplicate:
      return "no row of its rule keeps it whole with these operands";
    case RowEntry::Kind::kPartial:
      return "its rule does not carry P(" + std::string(name_of(now.op)) + ") of " + name +
             " with these operands";
    case RowEntry::Kind::kShard:
      break;
  }
  return why_not_cut(call, static_cast<int>(input), now.dim, name);
}

/// The first reduced axis on which the choice changes operand `input`.
std::size_t first_changed(const Call& call, const Choice& choice, std::size_t input) {
  for (std::size_t a = 0; a < call.axis_sizes.size(); ++a) {
    const CompactRow& row = call.rows[static_cast<std::size_t>(choice.rows[a])];
    if (!(row.inputs[input] == call.operands[input].cut.entries[a])) return a;
  }
  return 0;
}

std::string out_name(std::size_t o, std::size_t count) {
  return count == 1 ? std::string("out") : "out[" + std::to_string(o) + "]";
}

/// Why no row leaves result `o` as out= has it; empty where each axis alone could.
std::string why_not_given(const Call& call, std::size_t o) {
  const CallOperand& wanted = call.wanted[o];
  for (const RowEntry& entry : wanted.cut.entries) {
    const bool given = std::any_of(call.rows.begin(), call.rows.end(),
                                   [&](const CompactRow& row) { return row.outputs[o] == entry; });
    if (given) continue;
    if (entry.kind == RowEntry::Kind::kPartial) {
      return "no row of its rule gives P(" + std::string(name_of(entry.op)) + ")";
    }
    const int number = static_cast<int>(call.inputs.size() + o);
    if (entry.kind == RowEntry::Kind::kShard) {
      return why_not_cut(call, number, entry.dim, out_name(o, call.wanted.size()));
    }
  }
  return "its rows for these operands give no such combination over the axes";
}

Status output_refused(const Call& call, const Attrs& attrs) {
  const SearchResult free = search(call, Written::kMoves);
  std::string advice = "call it without out=";
  std::size_t blocking = 0;
  if (free.found > 0) {
    TSR_ASSIGN_OR_RETURN(const Resolution wanted, resolve(call, free.best[0]));
    std::int64_t moved = 0, after = 0;
    for (const std::int64_t bytes : wanted.moved_bytes) moved += bytes;
    std::string specs;
    for (std::size_t o = 0; o < call.wanted.size(); ++o) {
      const Spec& out = *call.wanted[o].spec;
      if (wanted.outputs[o] == out) continue;
      if (specs.empty()) blocking = o;
      after += estimate_moved_bytes(wanted.outputs[o], out);
      specs += (specs.empty() ? "" : ", ") + out_name(o, call.wanted.size()) + " as " +
               placements_text(wanted.outputs[o]);
    }
    advice = "give " + specs + ", for which operands move " + bytes_text(moved) +
             "; to redistribute the result from there moves " + bytes_text(after);
  }
  const std::string name = out_name(blocking, call.wanted.size());
  return failed_precondition(call.op->def.name + ": " + name + " stands as " +
                             placements_text(*call.wanted[blocking].spec) +
                             ", which the op cannot give, because " +
                             why_not_given(call, blocking) +
                             ", and out= never moves. Rows that would work: " + rows_text(call) +
                             ". Cheapest: " + advice + ". [" + described(call, attrs) + "]");
}

Status check_results(const Op& op, SpecPointers outs, std::span<const TensorMeta> results) {
  if (outs.size() != results.size()) {
    return invalid_argument(op.def.name + ": out= names " + std::to_string(outs.size()) +
                            " tensors; the op has " + std::to_string(results.size()) + " results");
  }
  for (std::size_t o = 0; o < outs.size(); ++o) {
    const TensorMeta& result = results[o];
    if (outs[o] != nullptr && outs[o]->global_shape() == result.shape &&
        outs[o]->dtype() == result.dtype) {
      continue;
    }
    return invalid_argument(
        op.def.name + ": " + out_name(o, outs.size()) + " is " +
        (outs[o] == nullptr ? "undefined" : meta_text(outs[o]->global_shape(), outs[o]->dtype())) +
        ", the result " + meta_text(result.shape, result.dtype) +
        "; out= neither resizes nor casts: give a tensor of that shape and dtype");
  }
  return absl::OkStatus();
}

Status check_op(const Op& op) {
  if (op.def.is_view) {
    return invalid_argument(op.def.name +
                            ": its result is an alias of its operand and takes no out=; copy_() "
                            "the view into the tensor");
  }
  if (op.mutates()) {
    return invalid_argument(op.def.name +
                            ": it writes its own operand and takes no out=; use the op without _");
  }
  return absl::OkStatus();
}

Status check_meshes(const Op& op, SpecPointers outs, const Mesh& mesh) {
  for (std::size_t o = 0; o < outs.size(); ++o) {
    if (outs[o]->mesh() == mesh) continue;
    const auto text = [](const Mesh& m) {
      return m.ndim() == 0 ? std::string("no mesh (plain)") : "mesh " + m.to_string();
    };
    return failed_precondition(op.def.name + ": " + out_name(o, outs.size()) + " lives on " +
                               text(outs[o]->mesh()) + ", the operands on " + text(mesh) +
                               "; out= never moves: give a tensor there. [" + outs[o]->to_string() +
                               "]");
  }
  return absl::OkStatus();
}

/// The operands as if they stood like `out`, where they have its number of dims.
std::vector<Spec> placed_like(SpecPointers inputs, const Spec& out) {
  std::vector<Spec> specs;
  const StatusOr<Placements> placements = out.placements();
  for (const Spec* spec : inputs) {
    Spec& like = specs.emplace_back(spec != nullptr ? *spec : Spec());
    if (spec == nullptr || !placements.ok() || spec->ndim() != out.ndim()) continue;
    StatusOr<Spec> made = Spec::make(out.mesh(), spec->global_shape(), spec->dtype(), *placements);
    if (made.ok()) like = *std::move(made);
  }
  return specs;
}

/// What an op whose rows no rule string expresses offers for exactly these results.
StatusOr<Resolution> strategies_into(const Op& op, SpecPointers inputs, const Attrs& attrs,
                                     SpecPointers outs, std::span<const ForcedRow> forced) {
  Op filtered;  // the same op, offering only what leaves `outs` in place
  filtered.def = op.def;
  filtered.rule = op.rule;
  filtered.in_place = op.in_place;
  std::string offered;
  filtered.def.strategies = [&](SpecPointers given, std::span<const TensorMeta> results,
                                const Attrs& own) -> StatusOr<std::vector<Strategy>> {
    TSR_ASSIGN_OR_RETURN(std::vector<Strategy> all, op.def.strategies(given, results, own));
    const std::vector<Spec> alike = placed_like(given, *outs[0]);
    std::vector<const Spec*> pointers;
    for (std::size_t i = 0; i < given.size(); ++i) {
      pointers.push_back(given[i] == nullptr ? nullptr : &alike[i]);
    }
    StatusOr<std::vector<Strategy>> more = op.def.strategies(pointers, results, own);
    if (more.ok()) all.insert(all.end(), more->begin(), more->end());
    std::vector<Strategy> kept;
    for (Strategy& each : all) {
      bool fits = each.outputs.size() == outs.size();
      for (std::size_t o = 0; fits && o < outs.size(); ++o) fits = each.outputs[o] == *outs[o];
      const std::string text = placements_text(each.outputs[0]);
      if (offered.find(text) == std::string::npos) offered += (offered.empty() ? "" : "; ") + text;
      if (fits) kept.push_back(std::move(each));
    }
    return kept;
  };
  StatusOr<Resolution> resolution = propagate(filtered, inputs, attrs, forced);
  if (resolution.ok() || offered.empty()) return resolution;
  TSR_ASSIGN_OR_RETURN(const Resolution free, propagate(op, inputs, attrs, forced));
  std::int64_t moved = 0;
  for (const std::int64_t bytes : free.moved_bytes) moved += bytes;
  return failed_precondition(
      op.def.name + ": " + out_name(0, outs.size()) + " stands as " + placements_text(*outs[0]) +
      ", which the op cannot give, and out= never moves. Results it can give: " + offered +
      ". Cheapest: give " + out_name(0, outs.size()) + " as " + placements_text(free.outputs[0]) +
      ", for which operands move " + bytes_text(moved) +
      "; to redistribute the result from there moves " +
      bytes_text(estimate_moved_bytes(free.outputs[0], *outs[0])) + ". [" +
      describe_call(op, inputs, attrs, outs[0]->mesh()) + "]");
}

std::vector<TensorMeta> metas_of(SpecPointers inputs) {
  std::vector<TensorMeta> metas;
  for (const Spec* spec : inputs) {
    metas.push_back(spec == nullptr ? TensorMeta{.absent = true}
                                    : TensorMeta{spec->global_shape(), spec->dtype()});
  }
  return metas;
}

}  // namespace

std::string placements_text(const Spec& spec) {
  if (spec.mesh().ndim() == 0) return "plain";
  const StatusOr<Placements> placements = spec.placements();
  return placements.ok() ? to_string(*placements) : spec.to_string();
}

std::string describe_call(const Op& op, SpecPointers inputs, const Attrs& attrs, const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const Spec& spec = *inputs[i];
    text += (text.empty() ? "" : ", ") + operand_name(op, static_cast<int>(i)) + " " +
            meta_text(spec.global_shape(), spec.dtype()) + " " + placements_text(spec);
  }
  if (!attrs.empty()) text += ", " + attrs.to_string();
  return text + ", on mesh " + mesh.to_string();
}

Status in_place_refused(const Call& call, const Attrs& attrs) {
  const SearchResult free = search(call, Written::kMoves);
  for (const int aliased : call.op->in_place) {
    if (aliased < 0 || free.found == 0) continue;
    const auto input = static_cast<std::size_t>(aliased);
    const StatusOr<Resolution> wanted = resolve(call, free.best[0]);
    if (!wanted.ok() || wanted->inputs[input] == *call.operands[input].spec) continue;
    const std::size_t axis = first_changed(call, free.best[0], input);
    const std::string name = operand_name(*call.op, aliased);
    return failed_precondition(
        call.op->def.name + ": " + name + " is " + placements_text(*call.operands[input].spec) +
        " and would have to move, because " +
        why_not_kept(call, input, call.operands[input].cut.entries[axis]) +
        ", but an in-place op must keep its placement. Rows that would work: " + rows_text(call) +
        ". Cheapest: redistribute " + name + " to " + placements_text(wanted->inputs[input]) +
        " first, which moves " + bytes_text(wanted->moved_bytes[input]) + ". [" +
        described(call, attrs) + "]");
  }
  return failed_precondition(call.op->def.name + ": no row fits these placements. Rows: " +
                             rows_text(call) + ". [" + described(call, attrs) + "]");
}

Status keep_written(const Op& op, SpecPointers inputs, const Attrs& attrs,
                    std::vector<Strategy>& offers) {
  const auto moves = [&](const Strategy& offer) {
    for (std::size_t o = 0; o < op.in_place.size(); ++o) {
      if (op.in_place[o] < 0) continue;
      const auto i = static_cast<std::size_t>(op.in_place[o]);
      if (!(offer.inputs[i] == *inputs[i]) || !(offer.outputs[o] == *inputs[i])) return true;
    }
    return false;
  };
  const auto written = std::find_if(op.in_place.begin(), op.in_place.end(),
                                    [](int aliased) { return aliased >= 0; });
  if (written == op.in_place.end()) return absl::OkStatus();
  const auto input = static_cast<std::size_t>(*written);
  std::string rows;
  const Spec* cheapest = nullptr;
  std::vector<Strategy> kept;
  for (const Strategy& offer : offers) {
    if (!moves(offer)) {
      kept.push_back(offer);
      continue;
    }
    const Spec& wants = offer.inputs[input];
    rows += (rows.empty() ? "" : "; ") + placements_text(wants);
    const auto bytes = [&](const Spec& to) { return estimate_moved_bytes(*inputs[input], to); };
    if (cheapest == nullptr || bytes(wants) < bytes(*cheapest)) cheapest = &wants;
  }
  const std::string name = operand_name(op, *written);
  if (kept.empty()) {
    std::string text = op.def.name + ": " + name + " is " + placements_text(*inputs[input]) +
                       " and would have to move, but an in-place op must keep its placement.";
    if (cheapest != nullptr) {
      text += " Placements of " + name + " that would work: " + rows + ". Cheapest: redistribute " +
              name + " to " + placements_text(*cheapest) + " first, which moves " +
              bytes_text(estimate_moved_bytes(*inputs[input], *cheapest)) + ".";
    }
    return failed_precondition(text + " [" +
                               describe_call(op, inputs, attrs, inputs[input]->mesh()) + "]");
  }
  offers = std::move(kept);
  return absl::OkStatus();
}

StatusOr<Resolution> propagate_into(const Op& op, SpecPointers inputs, const Attrs& attrs,
                                    SpecPointers outs, std::span<const ForcedRow> forced) {
  TSR_RETURN_IF_ERROR(check_op(op));
  std::vector<TensorMeta> metas = metas_of(inputs);
  TSR_ASSIGN_OR_RETURN(const std::vector<TensorMeta> results, infer(op, metas, attrs));
  TSR_RETURN_IF_ERROR(check_results(op, outs, results));
  // Without out= first: its errors are the operands' own, and it says on which mesh the op runs.
  TSR_ASSIGN_OR_RETURN(Resolution free, propagate(op, inputs, attrs, forced));
  TSR_RETURN_IF_ERROR(check_meshes(op, outs, free.outputs[0].mesh()));
  const auto fits = [&] {
    for (std::size_t o = 0; o < outs.size(); ++o) {
      if (!(free.outputs[o] == *outs[o])) return false;
    }
    return true;
  };
  if (fits()) return free;
  if (op.def.strategies != nullptr) return strategies_into(op, inputs, attrs, outs, forced);
  TSR_ASSIGN_OR_RETURN(Call call, make_call(op, std::move(metas), attrs, outs[0]->mesh()));
  for (const Spec* spec : inputs) call.operands.push_back(operand_of(call, spec));
  for (const Spec* spec : outs) {
    call.wanted.push_back(operand_of(call, spec));
    call.wanted.back().fixed = true;
  }
  TSR_RETURN_IF_ERROR(force_rows(call, forced));
  const SearchResult found = search(call);
  if (found.found == 0) {
    return call.is_forced() ? forced_refused(call, attrs, forced) : output_refused(call, attrs);
  }
  TSR_ASSIGN_OR_RETURN(Resolution resolution, resolve(call, found.best[0]));
  resolution.why += forced_text(call.mesh, forced);
  for (std::size_t o = 0; o < outs.size(); ++o) resolution.outputs[o] = *outs[o];
  return resolution;
}

}  // namespace tessera
