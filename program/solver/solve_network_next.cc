#include "program/solver/solve_network_next.h"

#include <algorithm>
#include <cmath>

namespace tessera::network {
namespace {

/// Increases of the cost by state of the network, of all variables.
using Increases = std::vector<std::vector<double>>;

/// By the marginals, and for states that others serve for by these. NaN: unknown. A state that was
/// forbidden stays so.
Increases exact_increases(const CostNetwork& network, const Core& core,
                          const std::vector<std::vector<double>>& marginals,
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

void find_second_choices(const CostNetwork& network, const Core& core,
                         const std::vector<std::vector<double>>& marginals,
                         NetworkSolution& solution) {
  const Neighbourhood neighbourhood(network, solution.states);
  Increases exact;
  if (!marginals.empty()) exact = exact_increases(network, core, marginals, solution.states);
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
