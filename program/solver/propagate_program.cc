#include "program/solver/propagate_program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "program/call_arguments.h"
#include "program/solver/greedy.h"
#include "program/solver/memory_caps.h"
#include "program/solver/placed_program.h"
#include "program/solver/placement_problem.h"
#include "program/solver/solve_network.h"
#include "program/unfold.h"

namespace tessera {
namespace {

std::string text_of(const Spec& spec) {
  const StatusOr<Placements> placements = spec.placements();
  if (!placements.ok()) return spec.to_string();
  std::string text;
  for (const Placement& each : *placements) text += (text.empty() ? "" : ", ") + to_string(each);
  return '[' + text + ']';
}

/// Adds up what a placed program costs, step by step.
class Pricer {
 public:
  Pricer(const Program& program, const OpTable& ops, const PropagateOptions& options)
      : program_(program), ops_(ops), prices_(options) {}

  StatusOr<double> run() {
    for (const ProgramValue& value : program_.values) {
      TSR_RETURN_IF_ERROR(know(value));
    }
    for (const AnyStep& step : program_.steps) {
      if (const auto* call = std::get_if<CallStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(add(*call));
      } else if (const auto* move = std::get_if<MoveStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(know(move->out));
        const int from = number_of(move->value);
        if (from >= 0) cost_ += prices_.of_move(from, number_of(move->out.name));
      } else if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        for (const ProgramValue& out : region->out) TSR_RETURN_IF_ERROR(know(out));
      }
    }
    return cost_;
  }

 private:
  int number_of(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? -1 : found->second;
  }
  Status know(const ProgramValue& value) {
    TSR_ASSIGN_OR_RETURN(const Spec spec, spec_of(program_, value));
    numbers_[value.name] = prices_.specs().of(spec);
    return absl::OkStatus();
  }
  Status add(const CallStep& call) {
    for (const ProgramValue& out : call.out) TSR_RETURN_IF_ERROR(know(out));
    const StatusOr<const Op*> op = ops_.find(call.op);
    if (!op.ok()) return absl::OkStatus();
    Json::Array args = call.args;
    std::vector<Json*> names;
    collect_operands(args, names);
    CallCandidate candidate;
    bool on_mesh = false;
    for (const Json* name : names) {
      const int number = name->if_string() == nullptr ? -1 : number_of(*name->if_string());
      candidate.inputs.push_back(number < 0 ? Spec() : prices_.specs().spec(number));
      on_mesh |= candidate.inputs.back().mesh().ndim() > 0;
    }
    if (!on_mesh) return absl::OkStatus();
    for (const ProgramValue& out : call.out) {
      candidate.outputs.push_back(prices_.specs().spec(number_of(out.name)));
    }
    TSR_ASSIGN_OR_RETURN(const Attrs attrs, attrs_of_call(**op, call.attrs));
    cost_ += prices_.of_work(**op, attrs, candidate);
    return absl::OkStatus();
  }

  const Program& program_;
  const OpTable& ops_;
  Prices prices_;
  absl::flat_hash_map<std::string, int> numbers_;
  double cost_ = 0.0;
};

/// Why each value lies where it does; values of one class by the first.
std::vector<PlacementChoice> choices_of(PlacementProblem& problem,
                                        const NetworkSolution& solution) {
  std::vector<PlacementChoice> choices;
  const StepGraph& graph = problem.graph();
  for (const ValueClass& each : problem.classes()) {
    const SolverValue& value = graph.value(each.values.front());
    const auto maker = static_cast<std::size_t>(each.maker);
    const auto state = static_cast<std::size_t>(solution.states[maker]);
    PlacementChoice choice{.value = value.value->name,
                           .made_by = std::string(name_of(value.value->role)),
                           .module = value.value->module,
                           .placements = text_of(problem.prices().specs().spec(each.made[state]))};
    if (value.made_by >= 0) {
      const AnyStep& step = graph.written(value.made_by);
      const Op* op = graph.step(value.made_by).op;
      choice.made_by = op != nullptr ? op->def.name : "a region";
      choice.module = step.origin.module;
    }
    if (maker < solution.next_best.size() && solution.next_state[maker] >= 0) {
      const auto next = static_cast<std::size_t>(solution.next_state[maker]);
      choice.next_best = text_of(problem.prices().specs().spec(each.made[next]));
      choice.next_costs = solution.next_best[maker];
    }
    choices.push_back(std::move(choice));
  }
  return choices;
}

Status greedy(const StepGraph& graph, const OpTable& ops, const PropagateOptions& options,
              PropagatedProgram& result) {
  TSR_ASSIGN_OR_RETURN(result.program, greedy_program(graph, options));
  TSR_ASSIGN_OR_RETURN(result.cost, price_of(result.program, ops, options));
  return absl::OkStatus();
}

Status solve(const StepGraph& graph, const OpTable& ops, const PropagateOptions& options,
             PropagatedProgram& result) {
  TSR_ASSIGN_OR_RETURN(const std::unique_ptr<PlacementProblem> problem,
                       PlacementProblem::make(graph, options));
  TSR_ASSIGN_OR_RETURN(const CappedSolution found, solve_under_cap(*problem, ops, options));
  const NetworkSolution& solution = found.network;
  result.program = found.program;
  const double held = problem->price_of_held(solution.states);
  result.cost = solution.cost - held;
  if (options.topology == nullptr) result.cost = std::round(result.cost);  // whole bytes
  result.bound = solution.exact ? result.cost : std::max(0.0, solution.bound - held);
  result.is_exact = solution.exact;
  result.num_variables = problem->network().num_variables();
  for (int v = 0; v < problem->network().num_variables(); ++v) {
    result.num_states += problem->network().num_states(v);
  }
  result.choices = choices_of(*problem, solution);
  return absl::OkStatus();
}

}  // namespace

double PropagatedProgram::gap() const noexcept {
  return cost > bound && cost > 0.0 ? (cost - bound) / cost : 0.0;
}

StatusOr<PropagatedProgram> propagate_program(const Program& program, const OpTable& ops,
                                              const PropagateOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  TSR_ASSIGN_OR_RETURN(const StepGraph graph, make_step_graph(program, ops));
  PropagatedProgram result;
  const bool solves = options.mode == PropagateMode::kSolve;
  TSR_RETURN_IF_ERROR(solves ? solve(graph, ops, options, result)
                             : greedy(graph, ops, options, result));
  TSR_ASSIGN_OR_RETURN(const StageMemory fullest, fullest_stage(result.program, ops));
  result.peak_bytes = fullest.peak_bytes;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

StatusOr<double> price_of(const Program& program, const OpTable& ops,
                          const PropagateOptions& options) {
  TSR_ASSIGN_OR_RETURN(const Program flat, unfold(program));
  return Pricer(flat, ops, options).run();
}

}  // namespace tessera
