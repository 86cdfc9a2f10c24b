// program/solver/solve_network_eliminate.h: elimination along a plan: the least cost, or a bound
// where the plan relaxes, what each state costs at least, and how to find states that have it.
#pragma once

#include <cstdint>
#include <vector>

#include "program/solver/solve_network_bucket.h"
#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_plan.h"

namespace tessera::network {

class Elimination {
 public:
  /// Both outlive it. The plan is of this core.
  Elimination(const Core& core, EliminationPlan& plan);

  /// The least cost of the core with these costs of states in place of its own; where the plan is
  /// not exact, a lower bound. kForbidden: no states are allowed together.
  double run(const std::vector<std::vector<double>>& unary);

  /// For each variable, the least cost with each of its states. Requires an exact plan, after
  /// run(). Cost: that of run() times tables a variable.
  std::vector<std::vector<double>> marginals();

  /// Of the variable of bucket `i`, each state's cost where the variables of later buckets have
  /// `states`, less what its messages foretold: added to a bound, that of the state.
  std::vector<double> excess(int i, const std::vector<int>& states) const;

  const EliminationPlan& plan() const { return plan_; }
  std::int64_t work() const { return work_; }

 private:
  /// A table's costs along one variable's axis, all other variables having states.
  struct Line {
    const double* at = nullptr;
    std::int64_t stride = 0;
    const Classes* classes = nullptr;  ///< of the variable's states
  };
  Line line(int factor, int v, const std::vector<int>& states) const;
  std::vector<std::vector<double>> shared_costs(const PlannedBucket& bucket);
  std::vector<double> message_down(const PlannedBucket& bucket, int child);
  std::vector<double> coarsened(const std::vector<double>& costs, const std::vector<Axis>& fine,
                                const std::vector<Axis>& coarse) const;
  BucketTask task_of(const PlannedBucket& bucket, int without);

  const Core& core_;
  EliminationPlan& plan_;
  const std::vector<std::vector<double>>* unary_ = nullptr;
  std::vector<Factor> factors_;
  std::vector<std::vector<double>> messages_;  ///< by number of the table, empty for links
  std::vector<double> numbers_;                ///< messages without axes, of each bucket
  std::vector<std::vector<double>> down_;      ///< likewise
  std::vector<Factor> down_factors_;
  std::int64_t work_ = 0;
};

}  // namespace tessera::network
