// program/solver/solve_network_core.h: a CostNetwork in the form that the solver changes: states
// and ports that are left, links with tables of their own, and what has become a constant.
#pragma once

#include <cstdint>
#include <vector>

#include "program/solver/cost_network.h"

namespace tessera::network {

/// Costs of pairs of ports of two different variables.
struct Link {
  int a = 0, b = 0;
  std::vector<std::uint16_t> port_a, port_b;  ///< one a state that is left
  int rows = 0, columns = 0;                  ///< ports of a, of b
  std::vector<double> costs;                  ///< [rows, columns]

  double* row(int port) { return costs.data() + static_cast<std::size_t>(port) * columns; }
  const double* row(int port) const {
    return costs.data() + static_cast<std::size_t>(port) * columns;
  }
  double at(int state_a, int state_b) const { return row(port_a[state_a])[port_b[state_b]]; }
};

/// A state that went because another one serves as well. Numbers are the network's.
struct Dropped {
  int v = 0, state = 0;
  int by = -1;        ///< which links see alike; -1: another that links may see differently
  double more = 0.0;  ///< than `by`, whatever the other variables do
};

/// Variables keep the network's numbers; one that is decided has one state and no links.
struct Core {
  double base = 0.0;  ///< added to all
  std::vector<std::vector<double>> unary;
  std::vector<std::vector<int>> state_of;  ///< the network's number of each state that is left
  std::vector<Link> links;
  /// [cap][variable][state]; empty where the cap does not list the variable.
  std::vector<std::vector<std::vector<double>>> amounts;
  std::vector<double> limits;    ///< one a cap
  std::vector<Dropped> dropped;  ///< in the order in which they went

  int num_variables() const { return static_cast<int>(unary.size()); }
  int num_states(int v) const { return static_cast<int>(unary[v].size()); }
  std::vector<std::vector<int>> links_of() const;
  /// From core states to the network's.
  std::vector<int> network_states(const std::vector<int>& states) const;
  double amount(int cap, int v, int state) const {
    return amounts[cap][v].empty() ? 0.0 : amounts[cap][v][state];
  }
};

/// Edges of a variable with itself become costs of its states; ports that no state has are gone.
Core make_core(const CostNetwork& network);

/// Drops states of which `keep` says false, from the variable's costs and amounts alone: links
/// follow by compress().
void keep_states(Core& core, const std::vector<std::vector<int>>& links_of, int v,
                 const std::vector<char>& keep);

/// Equal ports are joined; links between two ports become costs; parallel links become one where
/// its table stays small.
void compress(Core& core);

/// The core where the variables that `fixed` gives a state >= 0 have only that state.
Core with_fixed(const Core& core, const std::vector<int>& fixed);

}  // namespace tessera::network
