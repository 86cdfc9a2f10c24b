// Moves that nobody wrote go first, so that rounds which differ in nothing else become equal. Then
// the program is folded, and unfolded again: the steps of equal rounds are twins, and twins run
// alike, so that a stack of layers is decided once, whatever its height.
#include "program/solver/step_graph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "program/call_arguments.h"
#include "program/fold.h"
#include "program/solver/micro_batches.h"
#include "program/step_names.h"
#include "program/unfold.h"
#include "strategies/rules/binding.h"

namespace tessera {
namespace {

/// Drops moves that nobody wrote, and those that say no placement, of a list of steps and of the
/// repeats in it.
class MoveRemover {
 public:
  explicit MoveRemover(const Program& program) {
    for (const ProgramValue& value : program.values) mesh_of_[value.name] = value.mesh;
  }
  void clean(std::vector<AnyStep>& steps) {
    std::vector<AnyStep> kept;
    kept.reserve(steps.size());
    for (AnyStep& step : steps) {
      if (const auto* move = std::get_if<MoveStep>(&step.what);
          move != nullptr && (move->implicit || is_open(*move))) {
        source_[move->out.name] = source_of(move->value);
        continue;
      }
      if (auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        clean(repeat->steps);
        for (auto& [begin, end] : repeat->carry) end = source_of(end);
      } else if (auto* free = std::get_if<FreeStep>(&step.what)) {
        std::erase_if(free->values,
                      [&](const std::string& name) { return source_.contains(name); });
        if (free->values.empty()) continue;
      }
      std::vector<ValueUse>& reads_as = reads_as_.emplace_back();
      const int number = static_cast<int>(kept.size());
      visit_names(
          step,
          [&](std::string& name) {
            reads_as.push_back(first_use(name, {number, static_cast<int>(reads_as.size())}));
            name = source_of(name);
          },
          [&](const ProgramValue& value) { mesh_of_[value.name] = value.mesh; });
      kept.push_back(std::move(step));
    }
    steps = std::move(kept);
  }
  /// Of a flat program, per step and name that it reads, in order: the use for which it was moved.
  const std::vector<std::vector<ValueUse>>& reads_as() const noexcept { return reads_as_; }

 private:
  /// The use of a moved value before this one; step -1: it is not moved, or this is the first.
  ValueUse first_use(const std::string& name, const ValueUse& use) {
    if (!source_.contains(name)) return {};
    const auto [at, is_new] = first_uses_.try_emplace(name, use);
    return is_new ? ValueUse{} : at->second;
  }
  std::string source_of(const std::string& name) const {
    const auto found = source_.find(name);
    return found == source_.end() ? name : found->second;
  }
  /// It stays on its mesh, and goes where it is best.
  bool is_open(const MoveStep& move) const {
    const auto source = mesh_of_.find(source_of(move.value));
    return !move.out.layout && source != mesh_of_.end() && source->second == move.out.mesh;
  }
  absl::flat_hash_map<std::string, std::string> source_;
  absl::flat_hash_map<std::string, std::optional<int>> mesh_of_;
  absl::flat_hash_map<std::string, ValueUse> first_uses_;
  std::vector<std::vector<ValueUse>> reads_as_;
};

/// Numbers of steps as written, in the order in which they are unfolded.
void number_steps(const std::vector<AnyStep>& steps, int first, std::vector<int>& numbers) {
  for (const AnyStep& step : steps) {
    if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      for (std::int64_t round = 0; round < repeat->count; ++round) {
        number_steps(repeat->steps, first, numbers);
      }
    } else {
      numbers.push_back(first);
    }
    const auto count = [](const auto& self, const std::vector<AnyStep>& list) -> int {
      int total = 0;
      for (const AnyStep& each : list) {
        const auto* repeat = std::get_if<RepeatStep>(&each.what);
        total += repeat != nullptr ? self(self, repeat->steps) : 1;
      }
      return total;
    };
    const auto* repeat = std::get_if<RepeatStep>(&step.what);
    first += repeat != nullptr ? count(count, repeat->steps) : 1;
  }
}

class GraphMaker {
 public:
  GraphMaker(StepGraph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}

  Status run(const std::vector<int>& twins) {
    for (ProgramValue& value : graph_.program.values) add_value(value, -1, 0);
    graph_.steps.resize(graph_.program.steps.size());
    for (std::size_t i = 0; i < graph_.steps.size(); ++i) {
      graph_.steps[i].twin = twins[i];
      graph_.num_twins = std::max(graph_.num_twins, twins[i] + 1);
      TSR_RETURN_IF_ERROR(add_step(static_cast<int>(i)));
    }
    return absl::OkStatus();
  }

 private:
  int add_value(ProgramValue& value, int step, int result) {
    const int number = static_cast<int>(graph_.values.size());
    graph_.values.push_back({.value = &value, .made_by = step, .result = result});
    names_[value.name] = number;
    return number;
  }
  int find(const Json& name) const {
    const std::string* text = name.if_string();
    if (text == nullptr) return -1;
    const auto found = names_.find(*text);
    return found == names_.end() ? -1 : found->second;
  }

  Status add_step(int index) {
    AnyStep& written = graph_.program.steps[static_cast<std::size_t>(index)];
    SolverStep& step = graph_.steps[static_cast<std::size_t>(index)];
    if (auto* call = std::get_if<CallStep>(&written.what)) {
      TSR_RETURN_IF_ERROR(add_call(*call, step));
    } else if (auto* move = std::get_if<MoveStep>(&written.what)) {
      step.kind = StepKind::kMove;
      step.operands.push_back(find(Json(move->value)));
    } else if (auto* region = std::get_if<RegionStep>(&written.what)) {
      step.kind = StepKind::kRegion;
      add_arguments(region->args, step);
    } else {
      note_frees(written, index);
    }
    note_uses(index);
    int result = 0;
    visit_names(
        written, [](const std::string&) {},
        [&](ProgramValue& out) { step.results.push_back(add_value(out, index, result++)); });
    return absl::OkStatus();
  }

  Status add_call(CallStep& call, SolverStep& step) {
    const StatusOr<const Op*> op = ops_.find(call.op);
    std::vector<Json*> operands;
    collect_operands(call.args, operands);
    const std::optional<DType> numbers = number_dtype(operands, [&](const std::string& name) {
      const auto found = names_.find(name);
      if (found == names_.end()) return std::optional<DType>();
      return std::optional(graph_.value(found->second).value->dtype);
    });
    if (!op.ok() || !numbers) {
      step.kind = StepKind::kRegion;
      add_arguments(call.args, step);
      return absl::OkStatus();
    }
    step.kind = StepKind::kCall;
    step.op = *op;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      step.operands.push_back(find(*operands[i]));
      if (!is_number(*operands[i])) continue;
      step.numbers.resize(operands.size());
      step.numbers[i] = Spec::plain({}, *numbers);
    }
    const std::vector<ArgDef>& args = (*op)->def.args;
    for (std::size_t i = step.operands.size(); i < args.size(); ++i) {
      if (args[i].kind == ArgDef::Kind::kOptional) step.operands.push_back(-1);
    }
    return absl::OkStatus();
  }

  void add_arguments(Json::Array& args, SolverStep& step) const {
    std::vector<Json*> names;
    collect_strings(args, names);
    for (const Json* name : names) step.operands.push_back(find(*name));
  }

  void note_frees(const AnyStep& written, int index) {
    const auto* free = std::get_if<FreeStep>(&written.what);
    if (free == nullptr) return;
    graph_.frees = true;
    for (const std::string& name : free->values) {
      if (const int value = find(Json(name)); value >= 0) {
        graph_.values[static_cast<std::size_t>(value)].freed_at = index;
      }
    }
  }

  void note_uses(int index) {
    const SolverStep& step = graph_.step(index);
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] < 0) continue;
      SolverValue& value = graph_.values[static_cast<std::size_t>(step.operands[i])];
      value.uses.push_back({index, static_cast<int>(i)});
      value.last_use = index;
    }
    if (const auto* read = std::get_if<HostReadStep>(&graph_.written(index).what)) {
      if (const int value = find(Json(read->value)); value >= 0) {
        graph_.values[static_cast<std::size_t>(value)].last_use = index;
      }
    }
  }

  StepGraph& graph_;
  const OpTable& ops_;
  absl::flat_hash_map<std::string, int> names_;
};

using TakenLayouts = std::vector<std::optional<Layout>>;

/// On a flat program: placements of what calls make are to be found. What regions and foreign ops
/// read they take as it was declared: per step, by operand.
class ResultForgetter {
 public:
  ResultForgetter(Program& program, const OpTable& ops) : program_(program), ops_(ops) {}

  std::vector<TakenLayouts> run() {
    std::vector<TakenLayouts> taken;
    for (const ProgramValue& value : program_.values) dtypes_[value.name] = value.dtype;
    for (AnyStep& step : program_.steps) {
      TakenLayouts& of_step = taken.emplace_back();
      if (is_decided(step)) {
        forget(std::get<CallStep>(step.what));
      } else if (auto* region = std::get_if<RegionStep>(&step.what)) {
        note(region->args, of_step);
      } else if (auto* foreign = std::get_if<CallStep>(&step.what)) {
        note(foreign->args, of_step);
      } else if (auto* move = std::get_if<MoveStep>(&step.what)) {
        move->moves.reset();  // of where its source was
      }
      visit_names(
          step, [](const std::string&) {},
          [&](const ProgramValue& out) { dtypes_[out.name] = out.dtype; });
    }
    return taken;
  }

 private:
  /// Whether placements of what the step makes are to be found.
  bool is_decided(AnyStep& step) const {
    auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr || !ops_.find(call->op).ok()) return false;
    std::vector<Json*> operands;
    collect_operands(call->args, operands);
    const auto numbers = number_dtype(operands, [&](const std::string& name) {
      const auto found = dtypes_.find(name);
      return found == dtypes_.end() ? std::optional<DType>() : std::optional(found->second);
    });
    return numbers.has_value();
  }
  void forget(CallStep& call) {
    call.row.clear();
    call.moves.clear();
    for (ProgramValue& out : call.out) {
      if (!out.mesh || !out.layout) continue;
      declared_[out.name] = *std::move(out.layout);
      out.layout.reset();
    }
  }
  void note(Json::Array& args, TakenLayouts& taken) const {
    std::vector<Json*> names;
    collect_strings(args, names);
    for (const Json* name : names) {
      const auto found = declared_.find(*name->if_string());
      taken.push_back(found == declared_.end() ? std::nullopt : std::optional(found->second));
    }
  }

  Program& program_;
  const OpTable& ops_;
  absl::flat_hash_map<std::string, Layout> declared_;
  absl::flat_hash_map<std::string, DType> dtypes_;
};

/// Twins take their operands alike, or no step is another's twin.
void part_unequal(const std::vector<TakenLayouts>& taken, std::vector<int>& twins) {
  absl::flat_hash_map<int, std::size_t> firsts;
  for (std::size_t i = 0; i < twins.size(); ++i) {
    const auto [first, is_new] = firsts.try_emplace(twins[i], i);
    if (is_new || taken[first->second] == taken[i]) continue;
    for (std::size_t each = 0; each < twins.size(); ++each) twins[each] = static_cast<int>(each);
    return;
  }
}

}  // namespace

std::string StepGraph::place(int step) const {
  std::string text = absl::StrFormat("step %d", step);
  const std::string& module = written(step).origin.module;
  return module.empty() ? text : text + " in " + module;
}

Status StepGraph::at_step(int step, const Status& status) const {
  return Status(status.code(), to_absl(place(step) + ": " + std::string(message_of(status))));
}

std::string StepGraph::reader_of(const ValueUse& use) const {
  const Op* op = step(use.step).op;
  return op == nullptr ? "a region" : op->def.name + '.' + operand_name(*op, use.operand);
}

Program without_implicit_moves(Program program) {
  MoveRemover(program).clean(program.steps);
  return program;
}

namespace {

/// Numbers of names among a step's arguments become numbers of operands.
void link_uses(const std::vector<std::vector<ValueUse>>& reads_as, StepGraph& graph) {
  const auto operand_of = [&](int step, int name) {
    AnyStep written = graph.written(step);
    std::vector<Json*> all;
    auto* call = std::get_if<CallStep>(&written.what);
    if (call == nullptr || graph.step(step).kind != StepKind::kCall) return name;
    collect_operands(call->args, all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->if_string() != nullptr && name-- == 0) return static_cast<int>(i);
    }
    return -1;
  };
  for (std::size_t s = 0; s < reads_as.size(); ++s) {
    SolverStep& step = graph.steps[s];
    for (std::size_t n = 0; n < reads_as[s].size(); ++n) {
      const ValueUse& first = reads_as[s][n];
      if (first.step < 0) continue;
      const int operand = operand_of(static_cast<int>(s), static_cast<int>(n));
      if (operand < 0 || operand >= std::ssize(step.operands)) continue;
      step.reads_as.resize(step.operands.size());
      step.reads_as[static_cast<std::size_t>(operand)] = {first.step,
                                                          operand_of(first.step, first.operand)};
    }
  }
}

}  // namespace

StatusOr<StepGraph> make_step_graph(const Program& program, const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(Program flat, unfold(program));
  MoveRemover remover(flat);
  remover.clean(flat.steps);
  std::vector<TakenLayouts> taken = ResultForgetter(flat, ops).run();
  const Program folded = fold(flat);
  std::vector<int> twins;
  number_steps(folded.steps, 0, twins);
  if (twins.size() != taken.size()) return internal_error("folding changed the number of steps");
  const std::vector<int> micro_batches = alike_in_micro_batches(flat);
  twins = joined(twins, micro_batches);
  part_unequal(taken, twins);
  StepGraph graph;
  TSR_ASSIGN_OR_RETURN(graph.program, unfold(folded));
  TSR_RETURN_IF_ERROR(GraphMaker(graph, ops).run(twins));
  for (std::size_t i = 0; i < taken.size(); ++i) graph.steps[i].taken = std::move(taken[i]);
  link_uses(remover.reads_as(), graph);
  return graph;
}

}  // namespace tessera
