#include "program/solver/solve_network.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "program/solver/solve_network_caps.h"
#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_eliminate.h"
#include "program/solver/solve_network_next.h"
#include "program/solver/solve_network_plan.h"
#include "program/solver/solve_network_reduce.h"
#include "program/solver/solve_network_search.h"
#include "program/solver/solve_network_wide.h"

namespace tessera {
namespace {

using namespace network;

/// Up to so many additions an elimination is no dearer than to look for states to drop, which
/// hides second choices.
constexpr double kCheapWork = 3e7;

Status no_states(const std::string& detail) {
  return failed_precondition(absl::StrCat("cost network: no states are allowed together", detail));
}

class Solver {
 public:
  Solver(const CostNetwork& network, const NetworkOptions& options)
      : network_(network),
        options_(options),
        budget_(options.max_work, options.time_limit_s),
        core_(make_core(network)) {}

  StatusOr<NetworkSolution> run() {
    TSR_RETURN_IF_ERROR(prepare());
    take_start();
    const Status solved = core_.limits.empty() ? solve_free() : solve_with_caps();
    TSR_RETURN_IF_ERROR(solved);
    return solution();
  }

 private:
  Status reduced(Dominance dominance) {
    const int empty = reduce(core_, dominance);
    if (empty < 0) return {};
    return no_states(absl::StrCat(": variable ", empty, " has none that its edges allow"));
  }

  Status prepare() {
    TSR_RETURN_IF_ERROR(reduced(Dominance::kAlikeOnly));
    if (core_.limits.empty()) plan_ = plan_elimination(core_, options_.max_table);
    return {};
  }

  bool is_plan_affordable() const {
    return plan_.is_exact && plan_.work <= kCheapWork &&
           plan_.work <= static_cast<double>(budget_.left());
  }

  /// The caller's states, those that were dropped at the first of theirs; then downhill.
  void take_start() {
    if (core_.limits.empty() && is_plan_affordable()) return;
    std::vector<int> states(core_.unary.size(), 0);
    for (std::size_t v = 0; v < options_.start.size(); ++v) {
      const auto at =
          std::find(core_.state_of[v].begin(), core_.state_of[v].end(), options_.start[v]);
      if (at != core_.state_of[v].end()) {
        states[v] = static_cast<int>(at - core_.state_of[v].begin());
      }
    }
    offer(core_, states, best_);
    descend(core_, states, budget_);
    offer(core_, states, best_);
  }

  Status solve_free() {
    if (!is_plan_affordable()) {
      bound_ = close_gap(core_, {options_.max_table, options_.gap}, best_, budget_);
      if (best_.states.empty()) return not_found_status();
      if (options_.next_best) {
        known_.at_most = increases_beside_cutsets(core_, best_.states, budget_);
      }
      return {};
    }
    Elimination elimination(core_, plan_);
    bound_ = elimination.run(core_.unary);
    if (bound_ == kForbidden) return no_states("");
    offer(core_, TreeSearch(core_, elimination, {}).first_choice(budget_), best_);
    if (options_.next_best) known_.exact = elimination.marginals();
    budget_.spend(elimination.work());
    is_exact_ = true;
    return {};
  }

  Status not_found_status() const {
    if (bound_ == kForbidden) return no_states("");
    return absl::ResourceExhaustedError(
        "cost network: no states were found that are allowed together before the time or the work "
        "allowed was spent");
  }

  Status solve_with_caps() {
    const CappedResult result =
        solve_capped(core_, options_.max_table, options_.gap, best_, budget_);
    bound_ = result.bound;
    if (!best_.states.empty()) {
      is_exact_ = result.has_ended;
      return {};
    }
    if (result.is_forbidden) return no_states("");
    if (result.tight_cap >= 0) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "cost network: cap ", result.tight_cap, " allows ", core_.limits[result.tight_cap],
          ", but no states have less than ", result.least));
    }
    return absl::ResourceExhaustedError("cost network: no states keep all caps");
  }

  NetworkSolution solution() {
    NetworkSolution result;
    result.states = core_.network_states(best_.states);
    result.cost = network_.cost_without_caps(result.states);
    result.exact = is_exact_ || best_.is_reached_by(bound_);
    result.bound = result.exact ? result.cost : std::min(bound_, result.cost);
    result.work = budget_.spent();
    if (options_.next_best) find_second_choices(network_, core_, known_, result);
    return result;
  }

  const CostNetwork& network_;
  const NetworkOptions& options_;
  Budget budget_;
  Core core_;
  EliminationPlan plan_;
  Incumbent best_;
  double bound_ = 0.0;
  bool is_exact_ = false;
  KnownChoices known_;
};

Status check_options(const CostNetwork& network, const NetworkOptions& options) {
  if (options.max_table < 1) {
    return invalid_argument(absl::StrCat("cost network: max_table is ", options.max_table,
                                         "; allowed are numbers > 0"));
  }
  if (options.start.empty()) return {};
  if (std::ssize(options.start) != network.num_variables()) {
    return invalid_argument(absl::StrCat("cost network: start has ", options.start.size(),
                                         " states; there are ", network.num_variables(),
                                         " variables"));
  }
  for (int v = 0; v < network.num_variables(); ++v) {
    if (options.start[v] >= 0 && options.start[v] < network.num_states(v)) continue;
    return invalid_argument(absl::StrCat("cost network: start has state ", options.start[v],
                                         " of variable ", v, ", which has ",
                                         network.num_states(v)));
  }
  return {};
}

}  // namespace

StatusOr<NetworkSolution> solve_network(const CostNetwork& network, const NetworkOptions& options) {
  TSR_RETURN_IF_ERROR(network.check());
  TSR_RETURN_IF_ERROR(check_options(network, options));
  if (network.num_variables() == 0) return NetworkSolution{.exact = true};
  return Solver(network, options).run();
}

}  // namespace tessera
