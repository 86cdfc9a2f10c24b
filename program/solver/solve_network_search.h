// program/solver/solve_network_search.h: states of a core: depth first below a bound, and by
// solving large parts exactly while the rest stays.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_eliminate.h"

namespace tessera::network {

/// What may still be done: counted work, and a time only where the caller set one.
class Budget {
 public:
  Budget(std::int64_t work, std::optional<double> seconds);
  void spend(std::int64_t work) { spent_ += work; }
  std::int64_t spent() const { return spent_; }
  /// Work; under a time limit no more than fits it, about.
  std::int64_t left() const;
  bool is_over() const;
  /// A part of what is left, for one attempt.
  Budget part(std::int64_t work) const;

 private:
  std::int64_t work_, spent_ = 0;
  std::optional<std::chrono::steady_clock::time_point> end_;
};

/// The best states so far. Empty: none. They keep all caps.
struct Incumbent {
  std::vector<int> states;
  double cost = kForbidden;
  /// Differences of costs that rounding may make.
  double tolerance() const;
  bool is_reached_by(double bound) const { return bound >= cost - tolerance(); }
};

double cost_of(const Core& core, const std::vector<int>& states);
double amount_of(const Core& core, int cap, const std::vector<int>& states);
bool keeps_caps(const Core& core, const std::vector<int>& states);
/// Takes the states where they keep the caps and cost less.
void offer(const Core& core, const std::vector<int>& states, Incumbent& best);

/// The core's numbers of the network's states, -1 where it has dropped one.
std::vector<int> core_states(const Core& core, const std::vector<int>& network_states);
/// Offers `to` states of `from`, which is the same with fewer states. Nothing where they are empty.
void offer_from(const Core& from, const std::vector<int>& states, const Core& to, Incumbent& best);

/// Costs of states plus, for each cap, multiplier times amount.
std::vector<std::vector<double>> penalised(const Core& core,
                                           const std::vector<double>& multipliers);

/// Depth first over a plan's buckets, the last one first, each variable's cheapest states first,
/// below what an elimination foretells.
class TreeSearch {
 public:
  /// `elimination` has run with penalised(core, multipliers).
  TreeSearch(const Core& core, const Elimination& elimination, std::vector<double> multipliers);

  /// The elimination's own choice, without regard to caps. Empty where none is found.
  std::vector<int> first_choice(Budget& budget) const;

  /// `bound`: what run() returned. Improves `best`. Returns whether the search ended: then no
  /// states cost less than `best`.
  bool improve(double bound, Incumbent& best, Budget& budget) const;

 private:
  struct Frame {
    std::vector<std::pair<double, int>> options;  ///< bound and state, sorted
    std::size_t next = 0;
    std::vector<double> amounts;  ///< of each cap, by variables before
  };
  Frame open(int bucket, double bound, std::vector<double> amounts, const std::vector<int>& states,
             const Incumbent& best, Budget& budget) const;
  bool is_hopeless(double bound, const std::vector<double>& amounts, int bucket,
                   const Incumbent& best) const;
  void offer_leaf(double bound, const std::vector<double>& amounts, const std::vector<int>& states,
                  Incumbent& best, Budget& budget) const;

  const Core& core_;
  const Elimination& elimination_;
  const std::vector<double> multipliers_;
  double penalty_ = 0.0;  ///< multipliers times limits
  /// [cap][bucket]: the least amounts of variables of this and of earlier buckets.
  std::vector<std::vector<double>> least_;
};

}  // namespace tessera::network
