#include "program/solver/placed_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "program/call_arguments.h"
#include "program/step_names.h"

namespace tessera {
namespace {

/// A value somewhere else than where it was made.
struct Copy {
  std::string name;      ///< empty: it is not there yet
  int from = -1;         ///< index of the copy that it is moved from; -1: the value
  int readers_left = 0;  ///< steps that read it, and copies made of it
};

class Placer {
 public:
  Placer(PlacementProblem& problem, const PlacementSolution& solution)
      : problem_(problem), solution_(solution), graph_(problem.graph()) {}

  PlacedProgram run() {
    placed_ = graph_.program;
    placed_.steps.clear();
    for (std::size_t v = 0; v < graph_.values.size(); ++v) names_.insert(value(v).value->name);
    for (std::size_t v = 0; v < placed_.values.size(); ++v) {
      place(placed_.values[v], static_cast<int>(v));
    }
    copies_.resize(graph_.values.size());
    PlacedProgram result;
    for (std::size_t s = 0; s < graph_.steps.size(); ++s) {
      add(static_cast<int>(s));
      result.step_of.resize(placed_.steps.size(), static_cast<int>(s));
    }
    result.program = std::move(placed_);
    return result;
  }

 private:
  const SolverValue& value(std::size_t number) const { return graph_.values[number]; }
  const ValueClass* class_of(int value) const {
    const int number = problem_.class_of(value);
    return number < 0 ? nullptr : &problem_.classes()[static_cast<std::size_t>(number)];
  }
  int made(int value) const {
    return solution_.made[static_cast<std::size_t>(problem_.class_of(value))];
  }
  const CallCandidate& candidate(int step) const {
    const auto twin = static_cast<std::size_t>(graph_.step(step).twin);
    return problem_.twins()[twin].candidates[static_cast<std::size_t>(solution_.candidates[twin])];
  }
  int read(const ValueUse& use) {
    return problem_.spec_read(
        use, solution_.candidates[static_cast<std::size_t>(graph_.step(use.step).twin)]);
  }
  std::string fresh(const std::string& wanted) {
    std::string name = wanted;
    for (int number = 2; !names_.insert(name).second; ++number) {
      name = wanted + '#' + std::to_string(number);
    }
    return name;
  }

  /// In its class's placement.
  void place(ProgramValue& out, int value) {
    if (class_of(value) == nullptr) return;
    out.layout = problem_.prices().specs().spec(made(value)).layout();
  }

  void add(int index) {
    const SolverStep& step = graph_.step(index);
    AnyStep written = graph_.written(index);
    if (auto* free = std::get_if<FreeStep>(&written.what)) return add_free(*free, written);
    rename(written);
    if (auto* call = std::get_if<CallStep>(&written.what)) {
      replace(call->args, index);
      if (step.kind == StepKind::kCall) call->row = candidate(index).why;
      for (std::size_t r = 0; r < call->out.size(); ++r) place(call->out[r], step.results[r]);
    } else if (auto* region = std::get_if<RegionStep>(&written.what)) {
      replace(region->args, index);
    } else if (auto* move = std::get_if<MoveStep>(&written.what)) {
      if (!add_move(*move, index)) return;
    }
    placed_.steps.push_back(std::move(written));
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      if (step.operands[i] >= 0) end_read({index, static_cast<int>(i)});
    }
    flush_frees();
  }

  /// Arguments are names of values where they were made.
  void rename(AnyStep& written) {
    visit_names(
        written,
        [&](std::string& name) {
          if (const auto found = instead_.find(name); found != instead_.end()) name = found->second;
        },
        [](const ProgramValue&) {});
  }

  void add_free(FreeStep& free, AnyStep& written) {
    std::erase_if(free.values, [&](const std::string& name) { return instead_.contains(name); });
    if (!free.values.empty()) placed_.steps.push_back(std::move(written));
  }

  /// Each operand as the step reads it.
  void replace(Json::Array& args, int index) {
    const SolverStep& step = graph_.step(index);
    std::vector<Json*> names;
    if (step.kind == StepKind::kCall) {
      collect_operands(args, names);
    } else {
      collect_strings(args, names);
    }
    for (std::size_t i = 0; i < names.size() && i < step.operands.size(); ++i) {
      if (step.operands[i] < 0) continue;
      *names[i] = Json(name_read({index, static_cast<int>(i)}));
    }
  }

  std::string own_name(int value) const {
    const std::string& name = graph_.value(value).value->name;
    const auto found = instead_.find(name);
    return found == instead_.end() ? name : found->second;
  }
  std::string name_read(const ValueUse& use) {
    const int value = graph_.step(use.step).operands[static_cast<std::size_t>(use.operand)];
    if (class_of(value) == nullptr) return own_name(value);
    const int spec = read(use);
    if (spec == made(value)) return own_name(value);
    return copy(value, spec, use).name;
  }

  /// Copies of values are made anew in each phase where the solution says so.
  std::optional<StepPhase> phase_of(int value, int step) const {
    const int number = problem_.class_of(value);
    if (!solution_.again[static_cast<std::size_t>(number)]) return std::nullopt;
    return graph_.written(step).origin.phase;
  }
  /// The tree of copies of a value for a step, made when the first is asked for.
  std::map<int, Copy>& tree(int value, int step) {
    const std::optional<StepPhase> phase = phase_of(value, step);
    std::map<int, Copy>& copies = copies_[static_cast<std::size_t>(value)][phase];
    if (!copies.empty()) return copies;
    std::vector<int> wanted;
    for (const ValueUse& use : graph_.value(value).uses) {
      if (phase_of(value, use.step) != phase) continue;
      const int spec = read(use);
      if (spec == made(value)) continue;
      if (std::find(wanted.begin(), wanted.end(), spec) == wanted.end()) wanted.push_back(spec);
      ++copies[spec].readers_left;
    }
    const Prices::Copies found = problem_.prices().copies(made(value), wanted);
    for (std::size_t c = 0; c < wanted.size(); ++c) {
      const int from = found.from.empty() ? -1 : found.from[c];
      copies[wanted[c]].from = from < 0 ? -1 : wanted[static_cast<std::size_t>(from)];
      if (from >= 0) ++copies[wanted[static_cast<std::size_t>(from)]].readers_left;
    }
    return copies;
  }

  Copy& copy(int value, int spec, const ValueUse& use) {
    Copy& found = tree(value, use.step).at(spec);
    if (!found.name.empty()) return found;
    const std::string source = source_of(value, found, use);
    found.name = fresh(graph_.value(value).value->name + ".moved");
    ProgramValue out = *graph_.value(value).value;
    out.name = found.name;
    out.layout = problem_.prices().specs().spec(spec).layout();
    out.role = ValueRole::kTemporary;
    out.module.clear();
    const AnyStep& written = graph_.written(use.step);
    placed_.steps.push_back({MoveStep{.value = source,
                                      .out = std::move(out),
                                      .implicit = true,
                                      .needed_by = graph_.reader_of(use),
                                      .moves = {}},
                             written.origin});
    end_source(value, found, use.step);
    return found;
  }
  std::string source_of(int value, const Copy& of, const ValueUse& use) {
    return of.from < 0 ? own_name(value) : copy(value, of.from, use).name;
  }
  /// False where it comes to nothing, and who reads its result reads its source.
  bool add_move(MoveStep& move, int index) {
    const ValueUse use = {index, 0};
    const int value = graph_.step(index).operands[0];
    if (value < 0 || class_of(value) == nullptr) return true;
    const int spec = read(use);
    if (spec == made(value)) {
      if (!move.implicit) return true;
      instead_[move.out.name] = own_name(value);
      end_read(use);
      return false;
    }
    Copy& moved = tree(value, index).at(spec);
    const bool only = moved.readers_left == 1 && moved.name.empty();
    if (!only) {
      move.value = copy(value, spec, use).name;
      return true;
    }
    move.value = source_of(value, moved, use);
    moved.name = move.out.name;
    end_source(value, moved, index);
    moved.readers_left = 0;
    return true;
  }

  void end_source(int value, const Copy& of, int step) {
    if (of.from >= 0) end_copy(tree(value, step).at(of.from));
  }
  void end_read(const ValueUse& use) {
    const int value = graph_.step(use.step).operands[static_cast<std::size_t>(use.operand)];
    if (class_of(value) == nullptr) return;
    const int spec = read(use);
    if (spec == made(value)) return;
    Copy& read_copy = tree(value, use.step).at(spec);
    if (read_copy.readers_left > 0) end_copy(read_copy);
  }
  void end_copy(Copy& of) {
    if (--of.readers_left == 0 && graph_.frees && !of.name.empty()) ended_.push_back(of.name);
  }
  void flush_frees() {
    if (ended_.empty()) return;
    placed_.steps.push_back({FreeStep{std::move(ended_)}});
    ended_.clear();
  }

  PlacementProblem& problem_;
  const PlacementSolution& solution_;
  const StepGraph& graph_;
  Program placed_;
  absl::flat_hash_set<std::string> names_;
  absl::flat_hash_map<std::string, std::string> instead_;
  /// Per value and phase, by number of the spec.
  std::vector<std::map<std::optional<StepPhase>, std::map<int, Copy>>> copies_;
  std::vector<std::string> ended_;
};

}  // namespace

PlacementSolution solution_of(const PlacementProblem& problem, const std::vector<int>& states) {
  PlacementSolution solution;
  const auto state_of = [&](int variable) { return states[static_cast<std::size_t>(variable)]; };
  for (const StepTwin& twin : problem.twins()) {
    solution.candidates.push_back(twin.variable < 0 ? -1 : state_of(twin.variable));
  }
  for (const ValueClass& each : problem.classes()) {
    solution.made.push_back(each.made[static_cast<std::size_t>(state_of(each.maker))]);
    solution.again.push_back(each.copies >= 0 &&
                             each.again[static_cast<std::size_t>(state_of(each.copies))]);
  }
  return solution;
}

PlacedProgram placed_program(PlacementProblem& problem, const PlacementSolution& solution) {
  return Placer(problem, solution).run();
}

}  // namespace tessera
