// program/solver/solve_network.h: the least cost of a CostNetwork and states that have it, by exact
// elimination where its tables stay small, else by search between two bounds, whose gap is told.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"
#include "program/solver/cost_network.h"

namespace tessera TSR_API {

struct NetworkOptions {
  /// Stops with the best so far. Null: after a fixed amount of work, alike on all machines.
  std::optional<double> time_limit_s = {};
  std::int64_t max_table = 1 << 22;        ///< entries of one table of the elimination
  std::int64_t max_work = 20'000'000'000;  ///< additions, about 10^9 a second
  bool next_best = true;                   ///< whether to say what would come second
  double gap = 0.0;                        ///< (cost - bound) / cost that suffices
  std::vector<int> start = {};  ///< states to begin with, such as a greedy choice; empty: none
};

/// What a variable's second choice costs more, all other variables chosen anew.
enum class NextKind : std::uint8_t {
  kExact,   ///< the least increase
  kAtMost,  ///< such states were found; cheaper ones may be
};

struct NetworkSolution {
  std::vector<int> states;  ///< one a variable; they keep all caps
  double cost = 0.0;
  double bound = 0.0;  ///< no states cost less
  bool exact = false;  ///< they are the cheapest but for rounding; bound is cost
  std::int64_t work = 0;
  /// Where options.next_best, one a variable. kForbidden and -1: no other state is possible,
  /// or none was found (kAtMost).
  std::vector<double> next_best;
  std::vector<int> next_state;
  std::vector<NextKind> next_kind;

  /// (cost - bound) / cost; 0 where the cost is 0.
  double gap() const noexcept { return cost > bound && cost > 0.0 ? (cost - bound) / cost : 0.0; }
};

/// Deterministic but for a time limit; of equal costs the same states are taken, whatever the
/// machine. Errors: those of CostNetwork::check(); FailedPrecondition where no states are allowed
/// together; ResourceExhausted where no states keep a cap, naming the least amount there is, or the
/// least that was found where several caps conflict. Cost: with tables of T entries, about
/// T times the states of one variable for each variable.
StatusOr<NetworkSolution> solve_network(const CostNetwork& network,
                                        const NetworkOptions& options = {});

}  // namespace tessera
