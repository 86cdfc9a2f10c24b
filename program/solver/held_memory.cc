// What a rank holds at one step, as sums over the variables of a problem: of each value that is
// alive there, its bytes as it was made, and its copy where it has one alone.
#include <algorithm>
#include <map>

#include "program/solver/placement_problem.h"

namespace tessera {
namespace {

/// The steps in which a value is held, both included.
struct Lifetime {
  int first = 0, last = 0;
  bool holds(int step) const noexcept { return first <= step && step <= last; }
};

Lifetime lifetime_of(const StepGraph& graph, const SolverValue& value) {
  const int end = static_cast<int>(graph.steps.size());
  const ValueRole role = value.value->role;
  const bool stays = role == ValueRole::kParameter || role == ValueRole::kState ||
                     role == ValueRole::kBuffer || (value.made_by < 0 && graph.frees);
  Lifetime life = {std::max(value.made_by, 0), std::max({value.last_use, value.made_by, 0})};
  if (value.freed_at >= 0) {
    life.last = value.freed_at;
  } else if (stays) {
    life.last = end;
  }
  return life;
}

bool shares_memory(const StepGraph& graph, const SolverValue& value) {
  if (value.made_by < 0) return false;
  const SolverStep& maker = graph.step(value.made_by);
  return maker.kind == StepKind::kRegion ||
         (maker.op != nullptr && (maker.op->def.is_view ||
                                  maker.op->alias_of(static_cast<std::size_t>(value.result)) >= 0));
}

}  // namespace

double PlacementProblem::bytes_of(int spec) const {
  const Spec& of = prices_.specs().spec(spec);
  const Coord first(static_cast<std::size_t>(of.mesh().ndim()), 0);
  return static_cast<double>(num_elements(of.local_shape(first))) *
         static_cast<double>(size_of(of.dtype()));
}

/// Copies of which it is not known how their source is made, each counted as if it were another.
void PlacementProblem::add_uncounted_copies(
    const ValueClass& each, int step, double copied,
    const std::function<std::vector<double>&(int)>& amount) {
  if (each.copies == each.maker || !each.copied_from.empty()) return;
  if (each.copies >= 0) {
    if (copied == 0) return;
    std::vector<double>& of = amount(each.copies);
    for (std::size_t s = 0; s < of.size(); ++s) {
      for (const int copy : each.sets[s]) of[s] += copied * bytes_of(copy);
    }
    return;
  }
  // One reader: its copy is there while it runs.
  for (const int number : each.values) {
    for (const ValueUse& use : graph_.value(number).uses) {
      if (use.step != step || is_written(use)) continue;
      const StepTwin& twin = twins_[static_cast<std::size_t>(graph_.step(step).twin)];
      if (twin.variable < 0) continue;
      std::vector<double>& of = amount(twin.variable);
      for (std::size_t c = 0; c < of.size(); ++c) {
        const int read = spec_read(use, static_cast<int>(c));
        if (read >= 0) of[c] += bytes_of(read);
      }
    }
  }
}

CostCap PlacementProblem::held_at(int step, CopiesHeld copies) {
  std::map<int, std::vector<double>> amounts;
  const auto amount = [&](int variable) -> std::vector<double>& {
    std::vector<double>& of = amounts[variable];
    of.resize(static_cast<std::size_t>(network_.num_states(variable)), 0.0);
    return of;
  };
  for (const ValueClass& each : classes_) {
    double alive = 0, copied = 0, copied_again = 0;
    for (const int number : each.values) {
      const SolverValue& value = graph_.value(number);
      if (!shares_memory(graph_, value) && lifetime_of(graph_, value).holds(step)) ++alive;
      Lifetime all = {static_cast<int>(graph_.steps.size()), -1};
      std::map<std::optional<StepPhase>, Lifetime> phases;
      for (const ValueUse& use : value.uses) {
        if (is_written(use)) continue;
        const auto [phase, is_new] =
            phases.try_emplace(graph_.written(use.step).origin.phase, Lifetime{use.step, use.step});
        phase->second.last = use.step;
        all = {std::min(all.first, use.step), std::max(all.last, use.step)};
      }
      if (all.holds(step)) ++copied;
      copied_again += std::any_of(phases.begin(), phases.end(),
                                  [&](const auto& phase) { return phase.second.holds(step); });
    }
    if (alive > 0) {
      std::vector<double>& of = amount(each.maker);
      for (std::size_t s = 0; s < of.size(); ++s) of[s] += alive * bytes_of(each.made[s]);
    }
    if (copies == CopiesHeld::kAll) add_uncounted_copies(each, step, copied, amount);
    const bool told = each.copies >= 0 && (each.copies == each.maker || !each.copied_from.empty());
    if (!told || copied == 0) continue;
    std::vector<double>& of = amount(each.copies);
    for (std::size_t s = 0; s < of.size(); ++s) {
      // Which of several copies is alive here hangs on who reads it.
      if (each.sets[s].size() > 1 && copies == CopiesHeld::kNone) continue;
      const int from = each.copied_from.empty() ? each.made[s] : each.copied_from[s];
      for (const int copy : each.sets[s]) {
        if (copy != from) of[s] += (each.again[s] ? copied_again : copied) * bytes_of(copy);
      }
    }
  }
  CostCap cap;
  for (auto& [variable, of] : amounts) cap.amounts.push_back({variable, std::move(of)});
  return cap;
}

}  // namespace tessera
