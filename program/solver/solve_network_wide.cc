#include "program/solver/solve_network_wide.h"

#include <algorithm>
#include <cmath>

#include "program/solver/solve_network_dual.h"
#include "program/solver/solve_network_eliminate.h"
#include "program/solver/solve_network_plan.h"
#include "program/solver/solve_network_reduce.h"

namespace tessera::network {
namespace {

constexpr int kMaxSweeps = 100;
constexpr int kMaxRounds = 20;
constexpr int kMaxIdle = 3;                     ///< rounds that gain nothing
constexpr double kLeastRise = 1e-4;             ///< of the bound, that is a gain
constexpr int kCutsets = 6;                     ///< a round
constexpr std::int64_t kCutsetTable = 1 << 14;  ///< entries
constexpr std::int64_t kFirstTable = 1 << 10;
constexpr std::int64_t kLeastSearch = 1 << 20;  ///< work of a search in a tree
/// Additions of an exact elimination that is preferred to a relaxed one, and that is the last
/// resort.
constexpr double kExactWork = 1e8, kMostWork = 5e9;

void improve_once(const Core& core, const CutsetOptions& options, std::uint64_t seed,
                  Incumbent& best, Budget& budget) {
  std::vector<int> fixed(core.unary.size(), -1);
  for (const int v : find_cutset(core, options.max_table, seed)) fixed[v] = best.states[v];
  Core part = with_fixed(core, fixed);
  if (reduce(part, Dominance::kFull) >= 0) return;
  EliminationPlan plan = plan_elimination(part, options.max_table);
  Elimination elimination(part, plan);
  const std::vector<std::vector<double>> costs = penalised(part, options.multipliers);
  const double bound = elimination.run(costs);
  budget.spend(elimination.work());
  const TreeSearch search(part, elimination, options.multipliers);
  offer_from(part, search.first_choice(budget), core, best);
  if (options.multipliers.empty()) return;
  Incumbent better{.cost = best.cost};
  Budget share = budget.part(elimination.work() + kLeastSearch);
  search.improve(bound, better, share);
  budget.spend(share.spent());
  offer_from(part, better.states, core, best);
}

bool is_close(double cost, double bound, double gap) {
  return cost != kForbidden && cost - bound <= gap * cost;
}

/// A core that keeps fewer and fewer states, and costs in other places, beside the one of which
/// the best states are.
class GapCloser {
 public:
  GapCloser(const Core& core, const WideOptions& options, Incumbent& best, Budget& budget)
      : core_(core), tight_(core), options_(options), best_(best), budget_(budget) {
    bound_ = core.base;
    tight_.limits.clear();
    tight_.amounts.clear();
  }

  double run() {
    std::int64_t max_table = std::min(kFirstTable, options_.max_table);
    int idle = 0;
    for (int round = 0; round < kMaxRounds && idle < kMaxIdle && !is_done(); ++round) {
      const double cost = best_.cost, bound = bound_;
      if (!tighten()) return closed();
      // The largest tables once: again they would hardly say more.
      if (round == 0 || max_table > last_table_ || num_states() < 0.9 * last_states_) {
        last_table_ = max_table;
        last_states_ = num_states();
        if (relax(max_table)) return closed();
      }
      if (is_done()) break;
      if (best_.cost != kForbidden) improve(round);
      max_table = std::min(max_table * 4, options_.max_table);
      const bool has_moved = best_.cost < cost || bound_ - bound > kLeastRise * std::abs(bound);
      idle = has_moved ? 0 : idle + 1;
    }
    return std::min(bound_, best_.cost);
  }

 private:
  bool is_done() const {
    return budget_.is_over() || best_.is_reached_by(bound_) ||
           is_close(best_.cost, bound_, options_.gap);
  }
  int num_states() const {
    int count = 0;
    for (const std::vector<double>& costs : tight_.unary) count += static_cast<int>(costs.size());
    return count;
  }
  /// Nothing is left that costs less than the best states.
  double closed() const { return best_.cost; }

  /// Returns false where no states are left. Few states are dear before any were found: to compare
  /// them all would take longest.
  bool tighten() {
    raise_base(tight_, best_.cost, budget_);
    bound_ = std::max(bound_, tight_.base);
    if (best_.is_reached_by(tight_.base)) return false;
    if (best_.cost == kForbidden) return true;
    drop_dear(tight_, best_.cost - best_.tolerance());
    return reduce(tight_, Dominance::kFull) < 0;
  }

  /// Eliminates with tables of so many entries. Returns whether that was exact, or the search
  /// below it ended.
  bool relax(std::int64_t max_table) {
    EliminationPlan plan = plan_elimination(tight_, options_.max_table);
    const double most = max_table < options_.max_table ? kExactWork : kMostWork;
    if (!plan.is_exact || plan.work > std::min(most, static_cast<double>(budget_.left()))) {
      plan = plan_elimination(tight_, max_table);
    }
    Elimination elimination(tight_, plan);
    const double bound = elimination.run(tight_.unary);
    budget_.spend(elimination.work());
    bound_ = std::max(bound_, bound);
    if (best_.is_reached_by(bound)) return true;
    const TreeSearch search(tight_, elimination, {});
    offer_from(tight_, search.first_choice(budget_), core_, best_);
    if (best_.is_reached_by(bound)) return true;
    // The tree is searched for less long than the elimination took.
    Incumbent better{.cost = best_.cost};
    Budget part = budget_.part(elimination.work() / 8 + kLeastSearch);
    const bool has_ended = search.improve(bound, better, part);
    budget_.spend(part.spent());
    offer_from(tight_, better.states, core_, best_);
    return has_ended;
  }

  /// Around the best states, among these and what is left of others.
  void improve(int round) {
    const std::vector<int> network_states = core_.network_states(best_.states);
    Core around = core_;
    const std::vector<std::vector<int>> links_of = core_.links_of();
    for (int v = 0; v < core_.num_variables(); ++v) {
      const std::vector<int>& left = tight_.state_of[v];
      std::vector<char> keep;
      for (const int state : core_.state_of[v]) {
        keep.push_back(state == network_states[v] ||
                       std::binary_search(left.begin(), left.end(), state));
      }
      keep_states(around, links_of, v, keep);
    }
    compress(around);
    Incumbent better{.states = core_states(around, network_states), .cost = best_.cost};
    improve_by_cutsets(around,
                       {.max_table = std::min(kCutsetTable << (round / 2), options_.max_table),
                        .rounds = kCutsets,
                        .seed = static_cast<std::uint64_t>(round)},
                       better, budget_);
    offer_from(around, better.states, core_, best_);
  }

  const Core& core_;
  Core tight_;
  const WideOptions options_;
  Incumbent& best_;
  Budget& budget_;
  double bound_ = 0.0;
  std::int64_t last_table_ = 0;  ///< of the last relaxation
  double last_states_ = 0.0;     ///< that were left then
};

}  // namespace

void descend(const Core& core, std::vector<int>& states, Budget& budget) {
  const std::vector<std::vector<int>> links_of = core.links_of();
  bool is_changed = true;
  for (int sweep = 0; sweep < kMaxSweeps && is_changed && !budget.is_over(); ++sweep) {
    is_changed = false;
    for (int v = 0; v < core.num_variables(); ++v) {
      std::vector<double> costs = core.unary[v];
      for (const int i : links_of[v]) {
        const Link& link = core.links[i];
        for (int s = 0; s < core.num_states(v); ++s) {
          costs[s] += link.a == v ? link.at(s, states[link.b]) : link.at(states[link.a], s);
        }
        budget.spend(core.num_states(v));
      }
      const int least =
          static_cast<int>(std::min_element(costs.begin(), costs.end()) - costs.begin());
      if (costs[least] >= costs[states[v]]) continue;
      states[v] = least;
      is_changed = true;
    }
  }
}

void improve_by_cutsets(const Core& core, const CutsetOptions& options, Incumbent& best,
                        Budget& budget) {
  for (int i = 0; i < options.rounds && !budget.is_over(); ++i) {
    const std::uint64_t number = options.seed * static_cast<std::uint64_t>(options.rounds);
    improve_once(core, options, number + static_cast<std::uint64_t>(i), best, budget);
  }
}

double close_gap(const Core& core, const WideOptions& options, Incumbent& best, Budget& budget) {
  return GapCloser(core, options, best, budget).run();
}

}  // namespace tessera::network
