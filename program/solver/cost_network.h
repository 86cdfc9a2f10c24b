// program/solver/cost_network.h: a discrete problem of least cost: variables that each take one of
// some states, costs of states and of pairs of states, and caps on sums. solve_network.h solves it.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// The cost of what may not be.
inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

/// Costs of pairs of ports, in rows. A port is what one edge sees of a state: many states may
/// share it. One table may serve any number of edges.
struct CostTable {
  int rows = 0, columns = 0;
  std::vector<double> costs;  ///< [rows, columns], each >= 0 or kForbidden

  double at(int row, int column) const {
    return costs[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                 static_cast<std::size_t>(column)];
  }
};

/// Costs of pairs of states of `a` and `b`: weight * table[port_a[state]][port_b[state]].
struct CostEdge {
  int a = 0, b = 0;
  std::vector<std::uint16_t> port_a, port_b;  ///< one a state
  std::shared_ptr<const CostTable> table;
  double weight = 1.0;

  /// Forbidden stays so at any weight.
  double at(int state_a, int state_b) const;
};

/// Sum over the listed variables of amount[state] must be <= limit.
struct CostCap {
  struct Amounts {
    int variable = 0;
    std::vector<double> of_state;  ///< >= 0, one a state
  };
  std::vector<Amounts> amounts;  ///< each variable once at most; others have none
  double limit = 0.0;
};

/// Minimise the sum of all variables' and edges' costs under all caps. Its add_… functions keep
/// what they are given; check() says what does not fit.
class CostNetwork {
 public:
  /// A variable with one cost a state, each >= 0 or kForbidden. Returns its number: 0, 1, …
  int add_variable(std::vector<double> costs);
  /// Requires a variable and a state that there are.
  void add_cost(int variable, int state, double more);
  /// a == b is allowed: then it is a cost of that variable's states.
  void add_edge(int a, std::vector<std::uint16_t> port_a, int b, std::vector<std::uint16_t> port_b,
                std::shared_ptr<const CostTable> table, double weight = 1.0);
  void add_edge(CostEdge edge);
  /// Returns the cap's number: 0, 1, …
  int add_cap(CostCap cap);

  int num_variables() const noexcept { return static_cast<int>(costs_.size()); }
  int num_states(int variable) const { return static_cast<int>(costs_of(variable).size()); }
  const std::vector<double>& costs_of(int variable) const {
    return costs_[static_cast<std::size_t>(variable)];
  }
  const std::vector<CostEdge>& edges() const noexcept { return edges_; }
  const std::vector<CostCap>& caps() const noexcept { return caps_; }

  /// One state a variable. kForbidden where a state or pair is, or where a cap is broken.
  double cost_of(std::span<const int> states) const;
  /// The same without caps.
  double cost_without_caps(std::span<const int> states) const;
  double amount_of(const CostCap& cap, std::span<const int> states) const;
  /// Whether the sum is within the limit, but for rounding of sums.
  bool keeps(const CostCap& cap, std::span<const int> states) const;
  bool keeps_caps(std::span<const int> states) const;

  /// Errors: InvalidArgument for numbers of variables and ports that there are not, lists of
  /// another length than there are states, negative costs or amounts, NaN.
  Status check() const;

 private:
  std::vector<std::vector<double>> costs_;
  std::vector<CostEdge> edges_;
  std::vector<CostCap> caps_;
};

}  // namespace tessera
