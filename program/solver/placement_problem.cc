// Each call is a variable whose states are the ways in which it may run; so is each value that is
// there from the start, whose states are its placements. A value that one call reads costs what the
// move from how it is made to how it is read costs: an edge between the two. A value that several
// read gets a variable more: the set of placements in which it is had, which costs the cheapest
// tree of moves from how it is made, and of which each reader needs one. So what is moved once
// serves all.
#include "program/solver/placement_problem.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "placement/printable.h"
#include "program/call_arguments.h"
#include "program/solver/constraints.h"

namespace tessera {
StatusOr<Spec> PlacementProblem::whole(const ProgramValue& value) const {
  if (!value.mesh) return Spec::plain(value.global_shape, value.dtype);
  const Mesh& mesh = graph_.program.meshes[static_cast<std::size_t>(*value.mesh)].mesh;
  const Placements all(static_cast<std::size_t>(mesh.ndim()), Replicate{});
  return Spec::make(mesh, value.global_shape, value.dtype, all);
}

StatusOr<Spec> PlacementProblem::declared(const ProgramValue& value) const {
  if (value.mesh && !value.layout) return whole(value);
  return spec_of(graph_.program, value);
}

const std::string& PlacementProblem::module_of(int value) const {
  const SolverValue& known = graph_.value(value);
  if (!known.value->module.empty() || known.made_by < 0) return known.value->module;
  return graph_.written(known.made_by).origin.module;
}

StatusOr<std::unique_ptr<PlacementProblem>> PlacementProblem::make(
    const StepGraph& graph, const PropagateOptions& options) {
  std::unique_ptr<PlacementProblem> problem(new PlacementProblem(graph, options));
  problem->constraint_used_.resize(options.constraints.size(), false);
  problem->twins_.resize(static_cast<std::size_t>(graph.num_twins));
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    problem->twins_[static_cast<std::size_t>(graph.steps[i].twin)].steps.push_back(
        static_cast<int>(i));
  }
  TSR_RETURN_IF_ERROR(problem->find_candidates());
  TSR_RETURN_IF_ERROR(problem->add_twins());
  problem->make_classes();
  TSR_RETURN_IF_ERROR(problem->add_classes());
  for (std::size_t c = 0; c < options.constraints.size(); ++c) {
    if (problem->constraint_used_[c]) continue;
    return invalid_argument(in_quotes(options.constraints[c].text) +
                            ": the program has no value that it fits");
  }
  return problem;
}

/// Where operand `operand` of a twin may come to lie: what its makers give.
std::vector<Spec> PlacementProblem::made_for(const StepTwin& twin, std::size_t operand) const {
  std::vector<Spec> made;
  const auto add = [&](const Spec& spec) {
    if (std::find(made.begin(), made.end(), spec) == made.end()) made.push_back(spec);
  };
  std::set<std::pair<int, int>> seen;
  for (const int step : twin.steps) {
    const int operand_value = graph_.step(step).operands[operand];
    if (operand_value < 0) continue;
    const SolverValue& value = graph_.value(operand_value);
    if (value.made_by < 0) {
      if (const StatusOr<Spec> spec = declared(*value.value); spec.ok()) add(*spec);
      continue;
    }
    const int maker = graph_.step(value.made_by).twin;
    if (!seen.insert({maker, value.result}).second) continue;
    for (const CallCandidate& each : twins_[static_cast<std::size_t>(maker)].candidates) {
      const auto result = static_cast<std::size_t>(value.result);
      if (result < each.outputs.size()) add(each.outputs[result]);
    }
  }
  return made;
}

bool PlacementProblem::reads_later(const StepTwin& twin) const {
  return std::any_of(twin.steps.begin(), twin.steps.end(), [&](int step) {
    const SolverStep& reader = graph_.step(step);
    return std::any_of(reader.operands.begin(), reader.operands.end(), [&](int operand) {
      if (operand < 0 || graph_.value(operand).made_by < 0) return false;
      return graph_.step(graph_.value(operand).made_by).twin >= reader.twin;
    });
  });
}

Status PlacementProblem::find_candidates() {
  for (StepTwin& twin : twins_) TSR_RETURN_IF_ERROR(find_candidates(twin));
  // What a later step of the round before makes was not known yet.
  for (StepTwin& twin : twins_) {
    if (reads_later(twin)) TSR_RETURN_IF_ERROR(find_candidates(twin));
  }
  for (StepTwin& twin : twins_) TSR_RETURN_IF_ERROR(keep_allowed(twin));
  return absl::OkStatus();
}

Status PlacementProblem::find_candidates(StepTwin& twin) {
  const int first = twin.steps.front();
  const SolverStep& step = graph_.step(first);
  if (step.kind != StepKind::kCall) return take_as_written(twin);
  const auto& call = std::get<CallStep>(graph_.written(first).what);
  StatusOr<Attrs> attrs = attrs_of_call(*step.op, call.attrs);
  if (!attrs.ok()) return graph_.at_step(first, attrs.status());
  twin.attrs = *std::move(attrs);
  CandidateQuery query{.op = step.op, .attrs = &twin.attrs};
  bool on_mesh = false;
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    query.operands.emplace_back();
    query.made.emplace_back();
    if (i < step.numbers.size()) query.operands.back() = step.numbers[i];
    if (step.operands[i] < 0) continue;
    const SolverValue& value = graph_.value(step.operands[i]);
    TSR_ASSIGN_OR_RETURN(query.operands.back(), whole(*value.value));
    if (!value.on_mesh()) continue;
    on_mesh = true;
    query.made.back() = made_for(twin, i);
  }
  if (!on_mesh) return take_as_written(twin);
  // Micro-batches and layers that are not quite equal ask for the same.
  auto& known = candidates_[key_of(query)];
  if (known.empty()) {
    StatusOr<std::vector<CallCandidate>> found = candidates_of(query);
    if (!found.ok()) return graph_.at_step(first, found.status());
    known = *std::move(found);
  }
  twin.candidates = known;
  return absl::OkStatus();
}

std::string PlacementProblem::key_of(const CandidateQuery& query) {
  std::string key = query.op->def.name + ' ' + query.attrs->to_string();
  for (std::size_t i = 0; i < query.operands.size(); ++i) {
    key +=
        query.operands[i] ? absl::StrFormat(" %d:", prices_.specs().of(*query.operands[i])) : " -";
    for (const Spec& made : query.made[i]) key += absl::StrFormat("%d,", prices_.specs().of(made));
  }
  return key;
}

/// Results as they are declared, whole where they are not; operands of regions as these are.
Status PlacementProblem::take_as_written(StepTwin& twin) {
  const int first = twin.steps.front();
  const SolverStep& step = graph_.step(first);
  twin.candidates.assign(1, CallCandidate());
  for (const int result : step.results) {
    StatusOr<Spec> spec = declared(*graph_.value(result).value);
    if (!spec.ok()) return graph_.at_step(first, spec.status());
    twin.candidates[0].outputs.push_back(*std::move(spec));
  }
  for (std::size_t i = 0; i < step.operands.size(); ++i) {
    const int operand = step.operands[i];
    Spec taken;
    if (operand >= 0 && step.kind == StepKind::kMove) {
      taken = twin.candidates[0].outputs[0];
    } else if (operand >= 0) {
      ProgramValue value = *graph_.value(operand).value;
      if (i < step.taken.size() && step.taken[i]) value.layout = step.taken[i];
      StatusOr<Spec> spec = declared(value);
      if (!spec.ok()) return graph_.at_step(first, spec.status());
      taken = *std::move(spec);
    }
    twin.candidates[0].inputs.push_back(std::move(taken));
  }
  return absl::OkStatus();
}

/// Leaves out what a constraint on a result forbids.
Status PlacementProblem::keep_allowed(StepTwin& twin) {
  for (const int step : twin.steps) {
    const std::vector<int>& results = graph_.step(step).results;
    for (std::size_t r = 0; r < results.size(); ++r) {
      const ProgramValue& value = *graph_.value(results[r]).value;
      for (std::size_t c = 0; value.mesh && c < options_.constraints.size(); ++c) {
        const PlacementConstraint& constraint = options_.constraints[c];
        if (!concerns(constraint, value, module_of(results[r]))) continue;
        constraint_used_[c] = true;
        std::erase_if(twin.candidates, [&](const CallCandidate& each) {
          return r < each.outputs.size() && !allows(constraint, each.outputs[r]);
        });
        if (!twin.candidates.empty()) continue;
        return invalid_argument(absl::StrFormat("%s: it leaves %s, which %s makes, no placement",
                                                in_quotes(constraint.text), in_quotes(value.name),
                                                graph_.place(step)));
      }
    }
  }
  return absl::OkStatus();
}

Status PlacementProblem::add_twins() {
  for (StepTwin& twin : twins_) {
    const SolverStep& step = graph_.step(twin.steps.front());
    if (step.kind == StepKind::kOther) continue;
    std::vector<double> costs;
    for (const CallCandidate& each : twin.candidates) {
      const double work =
          step.kind == StepKind::kCall ? prices_.of_work(*step.op, twin.attrs, each) : 0.0;
      costs.push_back(work * static_cast<double>(twin.steps.size()));
    }
    twin.variable = network_.add_variable(std::move(costs));
  }
  return absl::OkStatus();
}

bool PlacementProblem::is_written(const ValueUse& use) const {
  const SolverStep& step = graph_.step(use.step);
  if (step.op == nullptr) return false;
  return std::find(step.op->in_place.begin(), step.op->in_place.end(), use.operand) !=
         step.op->in_place.end();
}

int PlacementProblem::spec_read(const ValueUse& use, int candidate) {
  const StepTwin& twin = twins_[static_cast<std::size_t>(graph_.step(use.step).twin)];
  const CallCandidate& chosen = twin.candidates[static_cast<std::size_t>(candidate)];
  const auto operand = static_cast<std::size_t>(use.operand);
  return operand < chosen.inputs.size() ? prices_.specs().of(chosen.inputs[operand]) : -1;
}

}  // namespace tessera
