#include "program/solver/solve_network_next.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>

#include "program/solver/solve_network_eliminate.h"
#include "program/solver/solve_network_plan.h"
#include "program/solver/solve_network_reduce.h"

namespace tessera::network {
namespace {

constexpr std::uint64_t kCutsets = 3;
constexpr std::int64_t kMostTable = 1 << 14, kLeastTable = 1 << 6;
constexpr double kCutWork = 6e6;  ///< additions of one elimination beside a cutset

/// Increases of the cost by state of the network, of all variables.
using Increases = std::vector<std::vector<double>>;

/// By the marginals, and for states that others serve for by these. NaN: unknown. A state that was
/// forbidden stays so.
Increases exact_increases(const CostNetwork& network, const Core& core, const Marginals& marginals,
                          const std::vector<int>& states) {
  Increases result;
  for (int v = 0; v < network.num_variables(); ++v) {
    std::vector<double>& increases =
        result.emplace_back(static_cast<std::size_t>(network.num_states(v)), kForbidden);
    double least = kForbidden;
    for (const double each : marginals[v]) least = std::min(least, each);
    for (std::size_t s = 0; s < core.state_of[v].size(); ++s) {
      increases[core.state_of[v][s]] = std::max(0.0, marginals[v][s] - least);
    }
    increases[states[v]] = 0.0;
  }
  for (auto dropped = core.dropped.rbegin(); dropped != core.dropped.rend(); ++dropped) {
    result[dropped->v][dropped->state] =
        dropped->by < 0 ? std::nan("") : result[dropped->v][dropped->by] + dropped->more;
  }
  return result;
}

/// Increases that are enough, likewise; NaN: unknown.
Increases sufficient_increases(const CostNetwork& network, const Core& core,
                               const Marginals& at_most) {
  Increases result;
  for (int v = 0; v < network.num_variables(); ++v) {
    std::vector<double>& increases =
        result.emplace_back(static_cast<std::size_t>(network.num_states(v)), std::nan(""));
    for (std::size_t s = 0; s < core.state_of[v].size(); ++s) {
      increases[core.state_of[v][s]] = at_most[v][s];
    }
  }
  for (auto dropped = core.dropped.rbegin(); dropped != core.dropped.rend(); ++dropped) {
    if (dropped->by < 0) continue;
    result[dropped->v][dropped->state] = result[dropped->v][dropped->by] + dropped->more;
  }
  return result;
}

/// The core with a cutset fixed, and a plan that is exact and cheap.
struct CutCore {
  Core core;
  EliminationPlan plan;
};
/// With tables as large as that allows, `max_table` at most, which becomes their size.
std::optional<CutCore> cut(const Core& core, const std::vector<int>& best, std::uint64_t seed,
                           std::int64_t& max_table) {
  for (; max_table >= kLeastTable; max_table /= 4) {
    std::vector<int> fixed(core.unary.size(), -1);
    for (const int v : find_cutset(core, max_table, seed)) fixed[v] = best[v];
    CutCore result{with_fixed(core, fixed), {}};
    if (drop_forbidden(result.core) >= 0) return std::nullopt;
    result.plan = plan_elimination(result.core, 4 * max_table);
    if (result.plan.is_exact && result.plan.work <= kCutWork) return result;
  }
  return std::nullopt;
}

/// What links of one variable say where all other variables stay.
class Neighbourhood {
 public:
  Neighbourhood(const CostNetwork& network, const std::vector<int>& states)
      : network_(network), states_(states), of_(states.size()) {
    for (const CostEdge& edge : network.edges()) {
      of_[edge.a].push_back(&edge);
      if (edge.b != edge.a) of_[edge.b].push_back(&edge);
    }
    for (const CostCap& cap : network.caps()) amounts_.push_back(network.amount_of(cap, states));
  }

  double increase(int v, int state) const {
    return breaks_cap(v, state) ? kForbidden : cost(v, state) - cost(v, states_[v]);
  }

 private:
  double cost(int v, int state) const {
    double sum = network_.costs_of(v)[state];
    for (const CostEdge* edge : of_[v]) {
      sum += edge->at(edge->a == v ? state : states_[edge->a],
                      edge->b == v ? state : states_[edge->b]);
    }
    return sum;
  }
  bool breaks_cap(int v, int state) const {
    for (std::size_t i = 0; i < amounts_.size(); ++i) {
      const CostCap& cap = network_.caps()[i];
      for (const CostCap::Amounts& each : cap.amounts) {
        if (each.variable != v) continue;
        const double with = amounts_[i] + each.of_state[state] - each.of_state[states_[v]];
        if (with > cap.limit + 1e-12 * cap.limit) return true;
      }
    }
    return false;
  }

  const CostNetwork& network_;
  const std::vector<int>& states_;
  std::vector<std::vector<const CostEdge*>> of_;
  std::vector<double> amounts_;
};

}  // namespace

Marginals increases_beside_cutsets(const Core& core, const std::vector<int>& best, Budget& budget) {
  Marginals result;
  for (const std::vector<double>& costs : core.unary) {
    result.emplace_back(costs.size(), std::nan(""));
  }
  std::int64_t max_table = kMostTable;
  for (std::uint64_t seed = 0; seed < kCutsets && !budget.is_over(); ++seed) {
    std::optional<CutCore> part = cut(core, best, seed, max_table);
    if (!part) continue;
    Elimination elimination(part->core, part->plan);
    elimination.run(part->core.unary);
    const Marginals marginals = elimination.marginals();
    budget.spend(elimination.work());
    const std::vector<int> states = core_states(part->core, core.network_states(best));
    for (std::size_t v = 0; v < result.size(); ++v) {
      if (part->core.unary[v].size() == 1) continue;
      const std::vector<int>& whole = part->core.state_of[v];
      for (std::size_t s = 0; s < whole.size(); ++s) {
        const auto at =
            std::lower_bound(core.state_of[v].begin(), core.state_of[v].end(), whole[s]);
        double& known = result[v][at - core.state_of[v].begin()];
        const double more = std::max(0.0, marginals[v][s] - marginals[v][states[v]]);
        known = std::isnan(known) ? more : std::min(known, more);
      }
    }
  }
  return result;
}

void find_second_choices(const CostNetwork& network, const Core& core, const KnownChoices& known,
                         NetworkSolution& solution) {
  const Neighbourhood neighbourhood(network, solution.states);
  Increases exact, at_most;
  if (!known.exact.empty()) exact = exact_increases(network, core, known.exact, solution.states);
  if (!known.at_most.empty()) at_most = sufficient_increases(network, core, known.at_most);
  for (int v = 0; v < network.num_variables(); ++v) {
    double least = kForbidden;
    int state = -1;
    NextKind kind = NextKind::kExact;
    for (int s = 0; s < network.num_states(v); ++s) {
      if (s == solution.states[v]) continue;
      double increase = exact.empty() ? std::nan("") : exact[v][s];
      if (std::isnan(increase)) {
        kind = NextKind::kAtMost;
        increase = neighbourhood.increase(v, s);
        if (!at_most.empty() && at_most[v][s] < increase) increase = at_most[v][s];
      }
      if (increase >= least) continue;
      least = increase;
      state = s;
    }
    solution.next_best.push_back(std::max(0.0, least));
    solution.next_state.push_back(state);
    solution.next_kind.push_back(kind);
  }
}

}  // namespace tessera::network
