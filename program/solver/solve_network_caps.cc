#include "program/solver/solve_network_caps.h"

#include <algorithm>
#include <cmath>

#include "program/solver/solve_network_eliminate.h"
#include "program/solver/solve_network_wide.h"

namespace tessera::network {
namespace {

constexpr int kMaxSecants = 40;
constexpr int kMaxSteps = 60;
constexpr int kCutsetRounds = 8;
constexpr std::int64_t kCutsetTable = 1 << 14;
constexpr std::int64_t kLeastSearch = std::int64_t{1} << 26;

/// One choice of states: what it costs and holds of each cap.
struct Choice {
  std::vector<int> states;
  double cost = kForbidden;
  std::vector<double> amounts;
};

/// Searches for multipliers of caps that raise the bound.
class CapSolver {
 public:
  CapSolver(const Core& core, EliminationPlan& plan, double gap, Incumbent& best, Budget& budget)
      : core_(core),
        plan_(plan),
        gap_(gap),
        best_(best),
        budget_(budget),
        elimination_(core, plan),
        multipliers_(core.limits.size(), 0.0) {
    result_.bound = -kForbidden;
  }

  CappedResult run() {
    const Choice free = choice_at(multipliers_);
    result_.is_forbidden = value_ == kForbidden;
    if (is_done() || result_.is_forbidden) return finished(true);
    find_least_amounts();
    if (result_.tight_cap >= 0) return finished(true);
    if (core_.limits.size() == 1 && !free.states.empty() && !least_.states.empty()) {
      follow_hull(free);
    } else {
      climb();
    }
    return search();
  }

 private:
  bool is_done() const {
    return best_.is_reached_by(result_.bound) ||
           (best_.cost != kForbidden && best_.cost - result_.bound <= gap_ * best_.cost);
  }
  CappedResult finished(bool has_ended) {
    result_.has_ended = has_ended;
    if (best_.is_reached_by(result_.bound)) result_.bound = best_.cost;
    return result_;
  }

  Choice choice_of(std::vector<int> states) const {
    Choice choice{.states = std::move(states)};
    if (choice.states.empty()) return choice;
    choice.cost = cost_of(core_, choice.states);
    for (int cap = 0; cap < static_cast<int>(core_.limits.size()); ++cap) {
      choice.amounts.push_back(amount_of(core_, cap, choice.states));
    }
    return choice;
  }

  double penalty(const std::vector<double>& multipliers) const {
    double sum = 0.0;
    for (std::size_t cap = 0; cap < multipliers.size(); ++cap) {
      sum += multipliers[cap] * core_.limits[cap];
    }
    return sum;
  }

  /// The relaxed problem's states, which are offered; keeps the multipliers with the best bound.
  Choice choice_at(const std::vector<double>& multipliers) {
    costs_ = penalised(core_, multipliers);
    const std::int64_t before = elimination_.work();
    value_ = elimination_.run(costs_);
    budget_.spend(elimination_.work() - before);
    const TreeSearch search(core_, elimination_, multipliers);
    Choice choice = choice_of(search.first_choice(budget_));
    offer(core_, choice.states, best_);
    const double bound = value_ - penalty(multipliers);
    if (bound > result_.bound) {
      result_.bound = bound;
      multipliers_ = multipliers;
    }
    return choice;
  }

  /// For each cap, the states that have least of it, whatever they cost.
  void find_least_amounts() {
    Core amounts = core_;
    amounts.base = 0.0;
    for (Link& link : amounts.links) {
      for (double& cost : link.costs) cost = cost == kForbidden ? cost : 0.0;
    }
    Elimination elimination(amounts, plan_);
    for (std::size_t cap = 0; cap < core_.limits.size(); ++cap) {
      for (std::size_t v = 0; v < amounts.unary.size(); ++v) {
        amounts.unary[v].assign(core_.unary[v].size(), 0.0);
        if (!core_.amounts[cap][v].empty()) amounts.unary[v] = core_.amounts[cap][v];
      }
      const double least = elimination.run(amounts.unary);
      const TreeSearch search(amounts, elimination, std::vector<double>(core_.limits.size(), 0.0));
      least_ = choice_of(search.first_choice(budget_));
      offer(core_, least_.states, best_);
      const double limit = core_.limits[cap];
      if (least > limit + 1e-12 * limit) {
        result_.tight_cap = static_cast<int>(cap);
        result_.least = least;
        result_.bound = kForbidden;
        break;
      }
    }
    budget_.spend(elimination.work());
  }

  /// One cap: bound by multiplier is the lower hull of the choices' lines; each step takes the
  /// multiplier where the line of the cheapest choice over the limit meets that of the cheapest
  /// one within.
  void follow_hull(const Choice& free) {
    Choice over = free, within = least_;
    for (int i = 0; i < kMaxSecants && !is_done() && !budget_.is_over(); ++i) {
      const double fewer = over.amounts[0] - within.amounts[0];
      const double more = within.cost - over.cost;
      if (fewer <= 0.0 || more < 0.0 || more == kForbidden) return;
      const double multiplier = more / fewer;
      Choice next = choice_at({multiplier});
      if (next.states.empty()) return;
      const double line = within.cost + multiplier * within.amounts[0];
      const double point = next.cost + multiplier * next.amounts[0];
      if (point >= line - 1e-12 * std::abs(line)) return;
      (next.amounts[0] > core_.limits[0] ? over : within) = std::move(next);
    }
  }

  /// Several caps: steps along what is over the limits, by how far the bound is from the best cost.
  void climb() {
    std::vector<double> at(core_.limits.size(), 0.0);
    double size = 1.0, last = -kForbidden;
    for (int i = 0; i < kMaxSteps && !is_done() && !budget_.is_over(); ++i) {
      const Choice choice = choice_at(at);
      if (choice.states.empty()) return;
      const double value = value_ - penalty(at);
      if (value <= last) size *= 0.8;
      last = std::max(last, value);
      double squares = 0.0;
      std::vector<double> over;
      for (std::size_t cap = 0; cap < at.size(); ++cap) {
        over.push_back((choice.amounts[cap] - core_.limits[cap]) / scale(cap));
        if (at[cap] == 0.0) over.back() = std::max(over.back(), 0.0);
        squares += over.back() * over.back();
      }
      if (squares == 0.0) return;
      const double goal =
          best_.cost == kForbidden ? value + 0.1 * std::abs(value) + 1e-9 : best_.cost;
      const double step = size * std::max(goal - value, 1e-6 * std::abs(goal)) / squares;
      for (std::size_t cap = 0; cap < at.size(); ++cap) {
        at[cap] = std::max(0.0, at[cap] + step * over[cap] / scale(cap));
      }
    }
  }
  double scale(std::size_t cap) const { return std::max(core_.limits[cap], 1e-30); }

  CappedResult search() {
    if (is_done()) return finished(best_.is_reached_by(result_.bound));
    costs_ = penalised(core_, multipliers_);
    const double value = elimination_.run(costs_);
    const TreeSearch search(core_, elimination_, multipliers_);
    Budget part = budget_.part(kLeastSearch + static_cast<std::int64_t>(plan_.work));
    const bool has_ended = search.improve(value, best_, part);
    budget_.spend(part.spent());
    if (has_ended) {
      result_.bound = best_.cost;
      return finished(true);
    }
    if (best_.cost != kForbidden) {
      improve_by_cutsets(
          core_, {.max_table = kCutsetTable, .rounds = kCutsetRounds, .multipliers = multipliers_},
          best_, budget_);
    }
    return finished(false);
  }

  const Core& core_;
  EliminationPlan& plan_;
  const double gap_;
  Incumbent& best_;
  Budget& budget_;
  Elimination elimination_;
  std::vector<double> multipliers_;         ///< of the best bound
  std::vector<std::vector<double>> costs_;  ///< of states, at the multipliers tried last
  double value_ = 0.0;                      ///< of the relaxed problem there
  Choice least_;
  CappedResult result_;
};

}  // namespace

CappedResult solve_capped(const Core& core, EliminationPlan& plan, double gap, Incumbent& best,
                          Budget& budget) {
  return CapSolver(core, plan, gap, best, budget).run();
}

}  // namespace tessera::network
