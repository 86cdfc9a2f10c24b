#include "program/solver/solve_network_caps.h"

#include <algorithm>
#include <cmath>

#include "program/solver/solve_network_dual.h"
#include "program/solver/solve_network_eliminate.h"
#include "program/solver/solve_network_plan.h"
#include "program/solver/solve_network_reduce.h"
#include "program/solver/solve_network_wide.h"

namespace tessera::network {
namespace {

constexpr int kMaxSecants = 40;
constexpr int kMaxSteps = 60;
constexpr int kCutsetRounds = 8;
constexpr std::int64_t kCutsetTable = 1 << 14;
constexpr std::int64_t kLeastSearch = std::int64_t{1} << 24;
constexpr std::int64_t kFirstTable = 1 << 9;
constexpr int kMaxRounds = 4;
constexpr double kCheapWork = 5e6, kDearWork = 1e8;  ///< additions of one elimination
constexpr double kSmallGap = 1e-3;                   ///< no more states are looked for below it

double penalty_of(const Core& core, const std::vector<double>& multipliers) {
  double sum = 0.0;
  for (std::size_t cap = 0; cap < multipliers.size(); ++cap) {
    sum += multipliers[cap] * core.limits[cap];
  }
  return sum;
}

/// One choice of states: what it costs and holds of each cap.
struct Choice {
  std::vector<int> states;
  double cost = kForbidden;
  std::vector<double> amounts;
};

/// One core and one plan of it: multipliers of caps that raise the bound, and a search below it.
class CapPricer {
 public:
  CapPricer(const Core& core, EliminationPlan& plan, double gap, Incumbent& best, Budget& budget)
      : core_(core),
        plan_(plan),
        gap_(gap),
        best_(best),
        budget_(budget),
        elimination_(core, plan),
        multipliers_(core.limits.size(), 0.0) {}

  /// From multipliers that were found on a like core.
  CappedResult price(const std::vector<double>& start) {
    const bool is_first = std::count(start.begin(), start.end(), 0.0) == std::ssize(start);
    const Choice choice = choice_at(start);
    result_.is_forbidden = value_ == kForbidden;
    if (is_done() || result_.is_forbidden) return finished(true);
    if (is_first) find_least_amounts();
    if (result_.tight_cap >= 0) return finished(true);
    if (core_.limits.size() == 1) {
      follow_hull(choice, start[0]);
    } else {
      climb(start);
    }
    return finished(best_.is_reached_by(result_.bound));
  }
  const std::vector<double>& multipliers() const { return multipliers_; }

  /// After price(): depth first, then around the best states.
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
    if (!best_.states.empty() && best_.cost - result_.bound > kSmallGap * best_.cost) {
      improve_by_cutsets(
          core_, {.max_table = kCutsetTable, .rounds = kCutsetRounds, .multipliers = multipliers_},
          best_, budget_);
    }
    return finished(false);
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

  /// The relaxed problem's states, which are offered; keeps the multipliers with the best bound.
  Choice choice_at(const std::vector<double>& multipliers) {
    costs_ = penalised(core_, multipliers);
    const std::int64_t before = elimination_.work();
    value_ = elimination_.run(costs_);
    budget_.spend(elimination_.work() - before);
    const TreeSearch search(core_, elimination_, multipliers);
    Choice choice = choice_of(search.first_choice(budget_));
    offer(core_, choice.states, best_);
    const double bound = value_ - penalty_of(core_, multipliers);
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

  /// One cap: the bound by its multiplier is the lower hull of the choices' lines. Each step takes
  /// the multiplier where the line of the cheapest choice over the limit meets that of the cheapest
  /// one within.
  void follow_hull(const Choice& choice, double start) {
    Choice within = best_.states.empty() ? least_ : choice_of(best_.states);
    Choice over = choice;
    for (double part = 0.9; !is_over(over) && start > 0.0 && part > -0.1; part -= 0.3) {
      if (!over.states.empty()) within = over;
      over = choice_at({std::max(0.0, part) * start});
    }
    if (!is_over(over) || within.states.empty()) return;
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
      (is_over(next) ? over : within) = std::move(next);
    }
  }
  bool is_over(const Choice& choice) const {
    return !choice.states.empty() && choice.amounts[0] > core_.limits[0];
  }

  /// Several caps: steps along what is over the limits, by how far the bound is from the best cost.
  void climb(std::vector<double> at) {
    double size = 1.0, last = -kForbidden;
    for (int i = 0; i < kMaxSteps && !is_done() && !budget_.is_over(); ++i) {
      const Choice choice = choice_at(at);
      if (choice.states.empty()) return;
      const double value = value_ - penalty_of(core_, at);
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

/// Drops states until elimination is cheap: at the multipliers found, costs move into the bound,
/// and what is too dear beside the best states goes.
class CapSolver {
 public:
  CapSolver(const Core& core, std::int64_t max_table, double gap, Incumbent& best, Budget& budget)
      : whole_(core), core_(core), max_table_(max_table), gap_(gap), best_(best), budget_(budget) {}

  CappedResult run() {
    multipliers_.assign(core_.limits.size(), 0.0);
    std::int64_t small_table = std::min(kFirstTable, max_table_);
    for (int round = 0; round < kMaxRounds && !budget_.is_over(); ++round) {
      EliminationPlan plan = plan_elimination(core_, max_table_);
      if (plan.is_exact && plan.work <= kCheapWork) return solved(plan);
      plan = plan_elimination(core_, small_table);
      price(plan);
      if (result_.has_ended) return result_;
      if (best_.states.empty()) break;
      const int before = num_states();
      if (!tighten()) return ended();
      if (num_states() > 0.9 * before) small_table = std::min(8 * small_table, max_table_);
    }
    EliminationPlan plan = plan_elimination(core_, max_table_);
    if (!plan.is_exact || plan.work > kDearWork) {
      plan = plan_elimination(core_, std::min(kCutsetTable, max_table_));
    }
    return solved(plan);
  }

 private:
  int num_states() const {
    int count = 0;
    for (const std::vector<double>& costs : core_.unary) count += static_cast<int>(costs.size());
    return count;
  }
  CappedResult ended() {
    result_.bound = best_.cost;
    result_.has_ended = true;
    return result_;
  }
  void take(const CappedResult& result, const Incumbent& better) {
    offer_from(core_, better.states, whole_, best_);
    const double before = result_.bound;
    result_ = result;
    result_.bound = std::min(std::max(before, result.bound), best_.cost);
    if (best_.is_reached_by(result_.bound)) result_.has_ended = true;
  }

  /// Bounds and choices by a plan of the core as it is.
  void price(EliminationPlan& plan) {
    Incumbent better{.cost = best_.cost};
    CapPricer pricer(core_, plan, gap_, better, budget_);
    const CappedResult result = pricer.price(multipliers_);
    multipliers_ = pricer.multipliers();
    take(result, better);
  }
  CappedResult solved(EliminationPlan& plan) {
    Incumbent better{.cost = best_.cost};
    CapPricer pricer(core_, plan, gap_, better, budget_);
    CappedResult result = pricer.price(multipliers_);
    if (!result.has_ended) result = pricer.search();
    take(result, better);
    return result_;
  }

  /// Returns false where no states are left that cost less than the best.
  bool tighten() {
    const double penalty = penalty_of(core_, multipliers_);
    core_.unary = penalised(core_, multipliers_);
    core_.base -= penalty;
    raise_base(core_, best_.cost, budget_);
    result_.bound = std::max(result_.bound, core_.base);
    if (best_.is_reached_by(core_.base)) return false;
    drop_dear(core_, best_.cost - best_.tolerance());
    std::vector<double> back;
    for (const double multiplier : multipliers_) back.push_back(-multiplier);
    core_.unary = penalised(core_, back);
    core_.base += penalty;
    return reduce(core_, Dominance::kFull) < 0;
  }

  const Core& whole_;  ///< of which the best states are
  Core core_;          ///< with fewer and fewer states, and costs in other places
  const std::int64_t max_table_;
  const double gap_;
  Incumbent& best_;
  Budget& budget_;
  std::vector<double> multipliers_;
  CappedResult result_;
};

}  // namespace

CappedResult solve_capped(const Core& core, std::int64_t max_table, double gap, Incumbent& best,
                          Budget& budget) {
  return CapSolver(core, max_table, gap, best, budget).run();
}

}  // namespace tessera::network
