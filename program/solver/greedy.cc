#include "program/solver/greedy.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "program/call_arguments.h"
#include "program/fold.h"
#include "program/solver/constraints.h"
#include "strategies/rules/propagate.h"

namespace tessera {
namespace {

class Greedy {
 public:
  Greedy(const StepGraph& graph, const PropagateOptions& options)
      : graph_(graph), options_(options), specs_(graph.values.size()) {}

  StatusOr<Program> run() {
    placed_ = graph_.program;
    placed_.steps.clear();
    for (const SolverValue& value : graph_.values) names_.insert(value.value->name);
    for (std::size_t s = 0; s < graph_.steps.size(); ++s) {
      for (const ValueUse& first : graph_.steps[s].reads_as) {
        if (first.step >= 0) last_readers_[{first.step, first.operand}] = static_cast<int>(s);
      }
    }
    for (std::size_t v = 0; v < placed_.values.size(); ++v) {
      TSR_RETURN_IF_ERROR(place_first(placed_.values[v], v));
    }
    for (std::size_t s = 0; s < graph_.steps.size(); ++s) {
      TSR_RETURN_IF_ERROR(add(static_cast<int>(s)));
    }
    return fold(placed_);
  }

 private:
  /// Where it is, else where a constraint wants it, else whole.
  Status place_first(ProgramValue& value, std::size_t number) {
    if (!value.mesh) return absl::OkStatus();
    if (!value.layout) {
      const Mesh& mesh = graph_.program.meshes[static_cast<std::size_t>(*value.mesh)].mesh;
      Placements placements(static_cast<std::size_t>(mesh.ndim()), Replicate{});
      for (const PlacementConstraint& each : options_.constraints) {
        if (each.allowed && concerns(each, value, value.module)) follow(each, mesh, placements);
      }
      TSR_ASSIGN_OR_RETURN(value.layout, decode(mesh, view_of(value.global_shape), placements));
    }
    TSR_ASSIGN_OR_RETURN(specs_[number], spec_of(graph_.program, value));
    return absl::OkStatus();
  }
  static void follow(const PlacementConstraint& constraint, const Mesh& mesh,
                     Placements& placements) {
    if (constraint.axis.empty() && constraint.placements.size() == placements.size()) {
      placements = constraint.placements;
    }
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      if (mesh.axis_label(axis) != constraint.axis) continue;
      placements[static_cast<std::size_t>(axis)] = constraint.placements.front();
    }
  }

  Status add(int index) {
    const SolverStep& step = graph_.step(index);
    AnyStep written = graph_.written(index);
    if (auto* call = std::get_if<CallStep>(&written.what);
        call != nullptr && step.kind == StepKind::kCall) {
      TSR_RETURN_IF_ERROR(add_call(*call, index));
    } else if (auto* region = std::get_if<RegionStep>(&written.what)) {
      TSR_RETURN_IF_ERROR(add_region(region->args, index));
    } else if (auto* foreign = std::get_if<CallStep>(&written.what)) {
      TSR_RETURN_IF_ERROR(add_region(foreign->args, index));
    }
    for (const int result : step.results) {
      const SolverValue& made = graph_.value(result);
      std::optional<Spec>& spec = specs_[static_cast<std::size_t>(result)];
      if (spec || !made.on_mesh()) continue;
      StatusOr<Spec> declared = spec_of(graph_.program, *made.value);
      if (!declared.ok()) return graph_.at_step(index, declared.status());
      spec = *std::move(declared);
    }
    placed_.steps.push_back(std::move(written));
    if (const auto ended = ends_.find(index); ended != ends_.end() && graph_.frees) {
      placed_.steps.push_back({FreeStep{std::move(ended->second)}});
    }
    return absl::OkStatus();
  }

  Status add_call(CallStep& call, int index) {
    const SolverStep& step = graph_.step(index);
    StatusOr<Attrs> attrs = attrs_of_call(*step.op, call.attrs);
    if (!attrs.ok()) return graph_.at_step(index, attrs.status());
    std::vector<Json*> names;
    collect_operands(call.args, names);
    std::vector<Spec> plain(step.operands.size());
    std::vector<const Spec*> specs;
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      specs.push_back(nullptr);
      if (i < step.numbers.size() && step.numbers[i]) specs.back() = &*step.numbers[i];
      if (step.operands[i] < 0) continue;
      const ProgramValue& value = *graph_.value(step.operands[i]).value;
      const std::optional<Spec>& known = specs_[static_cast<std::size_t>(step.operands[i])];
      plain[i] = known ? *known : Spec::plain(value.global_shape, value.dtype);
      if (const Read* moved = moved_before(step, i)) {
        plain[i] = moved->spec;
        *names[i] = Json(moved->name);
      }
      specs.back() = &plain[i];
    }
    StatusOr<Resolution> found = propagate(*step.op, specs, *attrs);
    if (!found.ok()) return graph_.at_step(index, found.status());
    for (std::size_t i = 0; i < names.size() && i < step.operands.size(); ++i) {
      if (step.operands[i] < 0 || specs[i]->mesh().ndim() == 0) continue;
      move(*names[i], step.operands[i], *specs[i], found->inputs[i], {index, static_cast<int>(i)});
    }
    call.row = found->why;
    for (std::size_t r = 0; r < call.out.size() && r < found->outputs.size(); ++r) {
      if (!call.out[r].mesh || found->outputs[r].mesh().ndim() == 0) continue;
      call.out[r].layout = found->outputs[r].layout();
      specs_[static_cast<std::size_t>(step.results[r])] = std::move(found->outputs[r]);
    }
    return absl::OkStatus();
  }

  Status add_region(Json::Array& args, int index) {
    const SolverStep& step = graph_.step(index);
    std::vector<Json*> names;
    collect_strings(args, names);
    for (std::size_t i = 0; i < step.taken.size() && i < names.size(); ++i) {
      if (!step.taken[i]) continue;
      ProgramValue wanted = *graph_.value(step.operands[i]).value;
      wanted.layout = step.taken[i];
      TSR_ASSIGN_OR_RETURN(const Spec spec, spec_of(graph_.program, wanted));
      const std::optional<Spec>& from = specs_[static_cast<std::size_t>(step.operands[i])];
      if (from) move(*names[i], step.operands[i], *from, spec, {index, static_cast<int>(i)});
    }
    return absl::OkStatus();
  }
  struct Read {
    std::string name;
    Spec spec;
  };
  /// What an operand was moved to for an earlier step, which this one reads too.
  const Read* moved_before(const SolverStep& step, std::size_t operand) const {
    if (operand >= step.reads_as.size()) return nullptr;
    const ValueUse& first = step.reads_as[operand];
    const auto found = moves_.find({first.step, first.operand});
    return found == moves_.end() ? nullptr : &found->second;
  }

  void move(Json& name, int value, const Spec& from, const Spec& to, const ValueUse& use) {
    if (from == to) return;
    ProgramValue out = *graph_.value(value).value;
    const std::string wish = out.name + ".moved";
    out.name = wish;
    for (int number = 2; !names_.insert(out.name).second; ++number) {
      out.name = wish + '#' + std::to_string(number);
    }
    out.layout = to.layout();
    out.role = ValueRole::kTemporary;
    out.module.clear();
    moves_[{use.step, use.operand}] = {out.name, to};
    ends_[last_reader(use)].push_back(out.name);
    const std::string source = *name.if_string();
    name = Json(out.name);
    placed_.steps.push_back({MoveStep{.value = source,
                                      .out = std::move(out),
                                      .implicit = true,
                                      .needed_by = graph_.reader_of(use),
                                      .moves = {}},
                             graph_.written(use.step).origin});
  }

  int last_reader(const ValueUse& use) const {
    const auto later = last_readers_.find({use.step, use.operand});
    return later == last_readers_.end() ? use.step : later->second;
  }

  const StepGraph& graph_;
  const PropagateOptions& options_;
  std::vector<std::optional<Spec>> specs_;
  Program placed_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::pair<int, int>, Read> moves_;     ///< by step and operand
  absl::flat_hash_map<int, std::vector<std::string>> ends_;  ///< by the step after which
  absl::flat_hash_map<std::pair<int, int>, int> last_readers_;
};

}  // namespace

StatusOr<Program> greedy_program(const StepGraph& graph, const PropagateOptions& options) {
  return Greedy(graph, options).run();
}

}  // namespace tessera
