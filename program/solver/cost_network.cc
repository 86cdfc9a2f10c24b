#include "program/solver/cost_network.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

/// Sums of amounts may exceed a limit by their rounding.
constexpr double kCapRounding = 1e-12;

bool is_cost(double cost) { return cost >= 0.0; }  // false for NaN

Status check_variable(const CostNetwork& network, const std::string& what, int variable) {
  if (variable >= 0 && variable < network.num_variables()) return {};
  return invalid_argument(absl::StrCat("cost network: ", what, " names variable ", variable,
                                       "; there are ", network.num_variables()));
}

Status check_ports(const std::string& what, int num_states, const std::vector<std::uint16_t>& ports,
                   int num_ports) {
  if (static_cast<int>(ports.size()) != num_states) {
    return invalid_argument(absl::StrCat("cost network: ", what, " has ports of ", ports.size(),
                                         " states, but its variable has ", num_states));
  }
  for (const std::uint16_t port : ports) {
    if (port < num_ports) continue;
    return invalid_argument(
        absl::StrCat("cost network: ", what, " has port ", port, "; its table has ", num_ports));
  }
  return {};
}

Status check_table(const std::string& what, const CostEdge& edge) {
  if (edge.table == nullptr) {
    return invalid_argument(absl::StrCat("cost network: ", what, " has no table"));
  }
  const std::size_t size =
      static_cast<std::size_t>(edge.table->rows) * static_cast<std::size_t>(edge.table->columns);
  if (edge.table->costs.size() != size) {
    return invalid_argument(absl::StrCat("cost network: ", what, " has a table of ",
                                         edge.table->rows, " x ", edge.table->columns, " with ",
                                         edge.table->costs.size(), " costs"));
  }
  if (!is_cost(edge.weight) || edge.weight == kForbidden) {
    return invalid_argument(absl::StrCat("cost network: ", what, " has weight ", edge.weight,
                                         "; allowed are finite ones >= 0"));
  }
  return {};
}

Status check_costs(const std::string& what, const std::vector<double>& costs) {
  for (const double cost : costs) {
    if (is_cost(cost)) continue;
    return invalid_argument(
        absl::StrCat("cost network: ", what, " has ", cost, "; allowed are numbers >= 0"));
  }
  return {};
}

Status check_cap(const CostNetwork& network, const std::string& what, const CostCap& cap) {
  if (!is_cost(cap.limit)) {
    return invalid_argument(
        absl::StrCat("cost network: ", what, " has limit ", cap.limit, "; allowed are >= 0"));
  }
  std::vector<bool> seen(static_cast<std::size_t>(network.num_variables()));
  for (const CostCap::Amounts& amounts : cap.amounts) {
    TSR_RETURN_IF_ERROR(check_variable(network, what, amounts.variable));
    if (seen[static_cast<std::size_t>(amounts.variable)]) {
      return invalid_argument(
          absl::StrCat("cost network: ", what, " lists variable ", amounts.variable, " twice"));
    }
    seen[static_cast<std::size_t>(amounts.variable)] = true;
    const int num_states = network.num_states(amounts.variable);
    if (static_cast<int>(amounts.of_state.size()) != num_states) {
      return invalid_argument(absl::StrCat("cost network: ", what, " has amounts of ",
                                           amounts.of_state.size(), " states of variable ",
                                           amounts.variable, ", which has ", num_states));
    }
    TSR_RETURN_IF_ERROR(check_costs(what, amounts.of_state));
    if (std::count(amounts.of_state.begin(), amounts.of_state.end(), kForbidden) > 0) {
      return invalid_argument(absl::StrCat("cost network: ", what,
                                           " has an infinite amount of variable ", amounts.variable,
                                           "; allowed are finite ones"));
    }
  }
  return {};
}

}  // namespace

double CostEdge::at(int state_a, int state_b) const {
  const double cost = table->at(port_a[static_cast<std::size_t>(state_a)],
                                port_b[static_cast<std::size_t>(state_b)]);
  return cost == kForbidden ? cost : weight * cost;
}

int CostNetwork::add_variable(std::vector<double> costs) {
  costs_.push_back(std::move(costs));
  return num_variables() - 1;
}

void CostNetwork::add_cost(int variable, int state, double more) {
  costs_[static_cast<std::size_t>(variable)][static_cast<std::size_t>(state)] += more;
}

void CostNetwork::add_edge(int a, std::vector<std::uint16_t> port_a, int b,
                           std::vector<std::uint16_t> port_b,
                           std::shared_ptr<const CostTable> table, double weight) {
  add_edge({a, b, std::move(port_a), std::move(port_b), std::move(table), weight});
}

void CostNetwork::add_edge(CostEdge edge) { edges_.push_back(std::move(edge)); }

int CostNetwork::add_cap(CostCap cap) {
  caps_.push_back(std::move(cap));
  return static_cast<int>(caps_.size()) - 1;
}

double CostNetwork::cost_of(std::span<const int> states) const {
  return keeps_caps(states) ? cost_without_caps(states) : kForbidden;
}

double CostNetwork::cost_without_caps(std::span<const int> states) const {
  double sum = 0.0;
  for (std::size_t v = 0; v < costs_.size(); ++v) {
    sum += costs_[v][static_cast<std::size_t>(states[v])];
  }
  for (const CostEdge& edge : edges_) {
    sum +=
        edge.at(states[static_cast<std::size_t>(edge.a)], states[static_cast<std::size_t>(edge.b)]);
  }
  return sum;
}

double CostNetwork::amount_of(const CostCap& cap, std::span<const int> states) const {
  double sum = 0.0;
  for (const CostCap::Amounts& amounts : cap.amounts) {
    const int state = states[static_cast<std::size_t>(amounts.variable)];
    sum += amounts.of_state[static_cast<std::size_t>(state)];
  }
  return sum;
}

bool CostNetwork::keeps(const CostCap& cap, std::span<const int> states) const {
  return amount_of(cap, states) <= cap.limit + kCapRounding * cap.limit;
}

bool CostNetwork::keeps_caps(std::span<const int> states) const {
  return std::all_of(caps_.begin(), caps_.end(),
                     [&](const CostCap& cap) { return keeps(cap, states); });
}

Status CostNetwork::check() const {
  for (int v = 0; v < num_variables(); ++v) {
    TSR_RETURN_IF_ERROR(check_costs(absl::StrCat("variable ", v), costs_of(v)));
  }
  absl::flat_hash_set<const CostTable*> checked;
  for (std::size_t i = 0; i < edges_.size(); ++i) {
    const CostEdge& edge = edges_[i];
    const std::string what = absl::StrCat("edge ", i);
    TSR_RETURN_IF_ERROR(check_variable(*this, what, edge.a));
    TSR_RETURN_IF_ERROR(check_variable(*this, what, edge.b));
    TSR_RETURN_IF_ERROR(check_table(what, edge));
    if (checked.insert(edge.table.get()).second) {
      TSR_RETURN_IF_ERROR(check_costs(what, edge.table->costs));
    }
    TSR_RETURN_IF_ERROR(check_ports(what, num_states(edge.a), edge.port_a, edge.table->rows));
    TSR_RETURN_IF_ERROR(check_ports(what, num_states(edge.b), edge.port_b, edge.table->columns));
  }
  for (std::size_t i = 0; i < caps_.size(); ++i) {
    TSR_RETURN_IF_ERROR(check_cap(*this, absl::StrCat("cap ", i), caps_[i]));
  }
  return {};
}

}  // namespace tessera
