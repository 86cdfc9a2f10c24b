#include "program/implicit_moves.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "placement/checked_int.h"
#include "program/call_arguments.h"
#include "strategies/rules/propagate.h"

namespace tessera {
namespace {

/// The rows of an equation, a letter cut each: "S(0), R -> S(1)".
std::vector<std::string> rows_of_equation(const std::string& equation) {
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) return {};
  std::vector<std::string> operands(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',') {
      operands.emplace_back();
    } else {
      operands.back() += c;
    }
  }
  const std::string result = equation.substr(arrow + 2);
  const auto entry = [](const std::string& letters, char letter, const char* otherwise) {
    const std::size_t at = letters.find(letter);
    return at == std::string::npos ? std::string(otherwise) : absl::StrFormat("S(%d)", at);
  };
  std::vector<std::string> rows;
  std::string seen;
  for (const char letter : equation.substr(0, arrow)) {
    if (letter == ',' || seen.find(letter) != std::string::npos) continue;
    seen += letter;
    std::string row;
    for (const std::string& operand : operands) {
      row += (row.empty() ? "" : ", ") + entry(operand, letter, "R");
    }
    rows.push_back(row + " -> " + entry(result, letter, "P(sum)"));
  }
  return rows;
}

/// One call, its operands where they stand.
struct Placed {
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<std::optional<Spec>> operands;  ///< none: an optional one that was not given
  std::vector<std::optional<Spec>> wanted;    ///< per result; none: anywhere
};

std::vector<std::string> row_texts(const Placed& call, std::int64_t axis_size) {
  if (call.op->def.name == "einsum") return rows_of_equation(call.attrs.get_string("equation"));
  if (call.op->def.rule.empty()) return {};
  std::vector<TensorMeta> metas;
  for (const std::optional<Spec>& spec : call.operands) {
    metas.push_back(spec ? TensorMeta{spec->global_shape(), spec->dtype()}
                         : TensorMeta{.shape = {}, .absent = true});
  }
  const StatusOr<std::vector<Row>> rows = rows_of(*call.op, metas, call.attrs, axis_size);
  std::vector<std::string> texts;
  if (!rows.ok()) return texts;
  for (const Row& row : *rows) texts.push_back(to_string(row));
  return texts;
}

class Writer {
 public:
  Writer(Program program, const OpTable& ops) : program_(std::move(program)), ops_(ops) {}

  Program run() {
    for (const ProgramValue& value : program_.values) know(value);
    for (const AnyStep& step : program_.steps) reserve(step);
    std::vector<AnyStep> steps = std::move(program_.steps);
    program_.steps.clear();
    for (AnyStep& step : steps) add(std::move(step));
    return std::move(program_);
  }

 private:
  void know(const ProgramValue& value) {
    known_.insert_or_assign(value.name, value);
    names_.insert(value.name);
  }
  void reserve(const AnyStep& step) {
    if (const auto* call = std::get_if<CallStep>(&step.what)) {
      for (const ProgramValue& value : call->out) names_.insert(value.name);
    } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      for (const ProgramValue& value : region->out) names_.insert(value.name);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      names_.insert(move->out.name);
    } else if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      for (const AnyStep& inside : repeat->steps) reserve(inside);
    }
  }
  std::string fresh(const std::string& wanted) {
    for (int number = 1;; ++number) {
      std::string name = number == 1 ? wanted : absl::StrFormat("%s#%d", wanted, number);
      if (names_.insert(name).second) return name;
    }
  }

  void add(AnyStep step) {
    if (auto* call = std::get_if<CallStep>(&step.what)) return add_call(*call, step.origin);
    if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      for (const ProgramValue& value : region->out) know(value);
    } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
      know(move->out);
    } else if (auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      add_repeat(*repeat);
    } else if (std::holds_alternative<FreeStep>(step.what)) {
      moved_.clear();  // what was moved may be gone
    }
    program_.steps.push_back(std::move(step));
  }

  /// What a round moves is moved in each. It ends where the next one begins.
  void add_repeat(RepeatStep& repeat) {
    moved_.clear();
    std::vector<AnyStep> before = std::move(program_.steps);
    program_.steps.clear();
    std::vector<AnyStep> inside = std::move(repeat.steps);
    for (AnyStep& step : inside) add(std::move(step));
    for (auto& [begin, end] : repeat.carry) {
      const auto from = known_.find(end), to = known_.find(begin);
      if (from == known_.end() || to == known_.end()) continue;
      const bool placed = from->second.layout && to->second.layout;
      if (!placed || from->second.layout == to->second.layout) continue;
      ProgramValue out = to->second;
      out.name = fresh(begin + ".next");
      out.role = ValueRole::kTemporary;
      out.module.clear();
      out.count = 1;
      MoveStep move{
          .value = end, .out = out, .implicit = true, .needed_by = "the next round", .moves = {}};
      end = out.name;
      know(out);
      program_.steps.push_back({std::move(move)});
    }
    repeat.steps = std::move(program_.steps);
    program_.steps = std::move(before);
    moved_.clear();
  }

  /// None: an operand has no placements, or is no tensor.
  std::optional<Placed> placed(const CallStep& call, const std::vector<Json*>& names) const {
    Placed placed;
    const StatusOr<const Op*> op = ops_.find(call.op);
    if (!op.ok()) return std::nullopt;
    placed.op = *op;
    StatusOr<Attrs> attrs = attrs_of_call(**op, call.attrs);
    if (!attrs.ok()) return std::nullopt;
    placed.attrs = *std::move(attrs);
    const std::optional<DType> numbers = number_dtype(names, [&](const std::string& name) {
      const auto found = known_.find(name);
      return found == known_.end() ? std::optional<DType>() : std::optional(found->second.dtype);
    });
    if (!numbers) return std::nullopt;
    for (const Json* name : names) {
      if (name->if_string() == nullptr) {
        placed.operands.emplace_back();
        if (is_number(*name)) placed.operands.back() = Spec::plain({}, *numbers);
        continue;
      }
      const auto found = known_.find(*name->if_string());
      if (found == known_.end()) return std::nullopt;
      StatusOr<Spec> spec = spec_of(program_, found->second);
      if (!spec.ok()) return std::nullopt;
      placed.operands.emplace_back(*std::move(spec));
    }
    for (std::size_t i = placed.operands.size(); i < (*op)->def.args.size(); ++i) {
      if ((*op)->def.args[i].kind == ArgDef::Kind::kOptional) placed.operands.emplace_back();
    }
    for (const ProgramValue& value : call.out) {
      StatusOr<Spec> spec = spec_of(program_, value);
      placed.wanted.emplace_back();
      if (spec.ok() && value.mesh) placed.wanted.back() = *std::move(spec);
    }
    return placed;
  }

  /// Bytes that all ranks receive for it.
  std::int64_t cost(const Placed& call, const Resolution& resolution,
                    const std::vector<Json*>& names) const {
    CheckedInt bytes = 0;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (!call.operands[i] || call.operands[i]->mesh().ndim() == 0) continue;
      const Spec &from = *call.operands[i], &to = resolution.inputs[i];
      if (moved_.contains({*names[i]->if_string(), to.to_string()})) continue;
      bytes += estimate_moved_bytes(from, to);
    }
    for (std::size_t i = 0; i < call.wanted.size() && i < resolution.outputs.size(); ++i) {
      if (!call.wanted[i] || call.wanted[i]->mesh() != resolution.outputs[i].mesh()) continue;
      bytes += estimate_moved_bytes(resolution.outputs[i].with_dtype(call.wanted[i]->dtype()),
                                    *call.wanted[i]);
    }
    return bytes.clamped();
  }

  StatusOr<Resolution> best(const Placed& call, const std::vector<Json*>& names) const {
    std::vector<const Spec*> specs;
    const Mesh* mesh = nullptr;
    for (const std::optional<Spec>& spec : call.operands) {
      specs.push_back(spec ? &*spec : nullptr);
      if (spec && spec->mesh().ndim() > 0 && mesh == nullptr) mesh = &spec->mesh();
    }
    if (mesh != nullptr && mesh->without_unit_axes().ndim() > kMaxMovedAxes) {
      return failed_precondition(
          absl::StrFormat("its mesh has %d axes; what a call moves is worked out on at most %d",
                          mesh->without_unit_axes().ndim(), kMaxMovedAxes));
    }
    TSR_ASSIGN_OR_RETURN(Resolution chosen, propagate(*call.op, specs, call.attrs));
    std::int64_t bytes = cost(call, chosen, names);
    if (mesh == nullptr) return chosen;
    std::vector<ForcedRow> forced(static_cast<std::size_t>(mesh->ndim()));
    constexpr int kRounds = 2;
    for (int round = 0; round < kRounds && bytes > 0; ++round) {
      for (int axis = 0; axis < mesh->ndim() && bytes > 0; ++axis) {
        if (mesh->size(axis) == 1) continue;
        for (const std::string& row : row_texts(call, mesh->size(axis))) {
          std::vector<ForcedRow> tried = forced;
          tried[static_cast<std::size_t>(axis)] = {row, mesh->axis_label(axis), "with_moves"};
          std::vector<ForcedRow> given;
          for (const ForcedRow& each : tried) {
            if (!each.row.empty()) given.push_back(each);
          }
          StatusOr<Resolution> other = propagate(*call.op, specs, call.attrs, given);
          if (!other.ok()) continue;
          const std::int64_t other_bytes = cost(call, *other, names);
          if (other_bytes >= bytes) continue;
          bytes = other_bytes;
          chosen = *std::move(other);
          forced = std::move(tried);
        }
      }
    }
    return chosen;
  }

  void add_call(CallStep& call, const StepOrigin& origin) {
    std::vector<Json*> names;
    collect_operands(call.args, names);
    const std::optional<Placed> placing = placed(call, names);
    if (!placing) {
      for (const ProgramValue& value : call.out) know(value);
      program_.steps.push_back({std::move(call), origin});
      return;
    }
    StatusOr<Resolution> chosen = best(*placing, names);
    if (!chosen.ok()) {
      RegionStep region{.name = call.op, .args = std::move(call.args), .out = std::move(call.out)};
      region.warning = message_of(chosen.status());
      for (const ProgramValue& value : region.out) know(value);
      program_.steps.push_back({std::move(region), origin});
      return;
    }
    move_operands(call, *placing, *chosen, names, origin);
    move_results(call, *placing, *chosen, origin);
  }

  void move_operands(const CallStep& call, const Placed& placing, const Resolution& chosen,
                     const std::vector<Json*>& names, const StepOrigin& origin) {
    const std::vector<ArgDef>& args = placing.op->def.args;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::optional<Spec>& from = placing.operands[i];
      if (!from || from->mesh().ndim() == 0 || chosen.inputs[i] == *from) continue;
      const std::string name = *names[i]->if_string();
      const auto [at, is_new] = moved_.try_emplace({name, chosen.inputs[i].to_string()});
      if (is_new) {
        at->second = fresh(name + ".moved");
        ProgramValue out = known_.find(name)->second;
        out.name = at->second;
        out.layout = chosen.inputs[i].layout();
        out.role = ValueRole::kTemporary;
        out.module.clear();
        out.count = 1;
        know(out);
        MoveStep move{.value = name,
                      .out = std::move(out),
                      .implicit = true,
                      .needed_by = call.op + '.' + args[std::min(i, args.size() - 1)].name,
                      .moves = {}};
        program_.steps.push_back({std::move(move), origin});
      }
      *names[i] = Json(moved_.find({name, chosen.inputs[i].to_string()})->second);
    }
  }

  void move_results(CallStep& call, const Placed& placing, const Resolution& chosen,
                    const StepOrigin& origin) {
    std::vector<MoveStep> moves;
    for (std::size_t i = 0; i < call.out.size() && i < chosen.outputs.size(); ++i) {
      ProgramValue& out = call.out[i];
      const Mesh& made_on = chosen.outputs[i].mesh();
      if (!out.mesh || program_.meshes[static_cast<std::size_t>(*out.mesh)].mesh != made_on) {
        continue;
      }
      if (placing.wanted[i] && placing.wanted[i]->layout() != chosen.outputs[i].layout()) {
        moves.push_back({.value = fresh(out.name + ".made"),
                         .out = out,
                         .implicit = true,
                         .needed_by = "result of " + call.op,
                         .moves = {}});
        out.name = moves.back().value;
        out.role = ValueRole::kTemporary;
        moves.back().out.role = ValueRole::kTemporary;  // which a redistribution cannot say
      }
      out.layout = chosen.outputs[i].layout();
    }
    if (call.row.empty()) call.row = chosen.why;
    for (const ProgramValue& value : call.out) know(value);
    program_.steps.push_back({std::move(call), origin});
    for (MoveStep& move : moves) {
      know(move.out);
      program_.steps.push_back({std::move(move), origin});
    }
  }

  Program program_;
  const OpTable& ops_;
  absl::flat_hash_map<std::string, ProgramValue> known_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::pair<std::string, std::string>, std::string> moved_;
};

}  // namespace

Program with_moves(Program program, const OpTable& ops) {
  return Writer(std::move(program), ops).run();
}

}  // namespace tessera
