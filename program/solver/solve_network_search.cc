#include "program/solver/solve_network_search.h"

#include <algorithm>
#include <utility>

namespace tessera::network {
namespace {

constexpr double kRounding = 1e-12;
constexpr double kAdditionsPerSecond = 3e8;  ///< where a time limit asks for an estimate

bool is_within(double amount, double limit) { return amount <= limit + kRounding * limit; }

}  // namespace

Budget::Budget(std::int64_t work, std::optional<double> seconds) : work_(work) {
  if (!seconds) return;
  end_ = std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(
             std::chrono::duration<double>(std::clamp(*seconds, 0.0, 1e6)));
}

std::int64_t Budget::left() const {
  const std::int64_t work = work_ - spent_;
  if (!end_) return work;
  const std::chrono::duration<double> time = *end_ - std::chrono::steady_clock::now();
  return std::min(work,
                  static_cast<std::int64_t>(std::max(0.0, time.count()) * kAdditionsPerSecond));
}

bool Budget::is_over() const {
  return spent_ >= work_ || (end_ && std::chrono::steady_clock::now() >= *end_);
}

Budget Budget::part(std::int64_t work) const {
  Budget result = *this;
  result.work_ = std::min(work, work_ - spent_);
  result.spent_ = 0;
  return result;
}

double Incumbent::tolerance() const { return cost == kForbidden ? 0.0 : kRounding * cost; }

double cost_of(const Core& core, const std::vector<int>& states) {
  double sum = core.base;
  for (std::size_t v = 0; v < states.size(); ++v) sum += core.unary[v][states[v]];
  for (const Link& link : core.links) sum += link.at(states[link.a], states[link.b]);
  return sum;
}

double amount_of(const Core& core, int cap, const std::vector<int>& states) {
  double sum = 0.0;
  for (int v = 0; v < core.num_variables(); ++v) sum += core.amount(cap, v, states[v]);
  return sum;
}

bool keeps_caps(const Core& core, const std::vector<int>& states) {
  for (std::size_t cap = 0; cap < core.limits.size(); ++cap) {
    if (!is_within(amount_of(core, static_cast<int>(cap), states), core.limits[cap])) return false;
  }
  return true;
}

void offer(const Core& core, const std::vector<int>& states, Incumbent& best) {
  if (states.empty() || !keeps_caps(core, states)) return;
  const double cost = cost_of(core, states);
  if (cost == kForbidden || cost >= best.cost - best.tolerance()) return;
  best.cost = cost;
  best.states = states;
}

std::vector<int> core_states(const Core& core, const std::vector<int>& network_states) {
  std::vector<int> result;
  for (std::size_t v = 0; v < network_states.size(); ++v) {
    const std::vector<int>& states = core.state_of[v];
    const auto at = std::lower_bound(states.begin(), states.end(), network_states[v]);
    const bool is_there = at != states.end() && *at == network_states[v];
    result.push_back(is_there ? static_cast<int>(at - states.begin()) : -1);
  }
  return result;
}

void offer_from(const Core& from, const std::vector<int>& states, const Core& to, Incumbent& best) {
  if (!states.empty()) offer(to, core_states(to, from.network_states(states)), best);
}

std::vector<std::vector<double>> penalised(const Core& core,
                                           const std::vector<double>& multipliers) {
  std::vector<std::vector<double>> costs = core.unary;
  for (std::size_t cap = 0; cap < multipliers.size(); ++cap) {
    if (multipliers[cap] == 0.0) continue;
    for (std::size_t v = 0; v < costs.size(); ++v) {
      const std::vector<double>& amounts = core.amounts[cap][v];
      for (std::size_t s = 0; s < amounts.size(); ++s) {
        costs[v][s] += multipliers[cap] * amounts[s];
      }
    }
  }
  return costs;
}

TreeSearch::TreeSearch(const Core& core, const Elimination& elimination,
                       std::vector<double> multipliers)
    : core_(core), elimination_(elimination), multipliers_(std::move(multipliers)) {
  for (std::size_t cap = 0; cap < core.limits.size(); ++cap) {
    penalty_ += multipliers_[cap] * core.limits[cap];
    std::vector<double>& least = least_.emplace_back();
    double sum = 0.0;
    for (const PlannedBucket& bucket : elimination.plan().buckets) {
      const std::vector<double>& amounts = core.amounts[cap][bucket.v];
      if (!amounts.empty()) sum += *std::min_element(amounts.begin(), amounts.end());
      least.push_back(sum);
    }
  }
}

std::vector<int> TreeSearch::first_choice(Budget& budget) const {
  std::vector<int> states(core_.unary.size(), 0);
  for (std::size_t i = elimination_.plan().buckets.size(); i-- > 0;) {
    const std::vector<double> costs = elimination_.excess(static_cast<int>(i), states);
    const auto least = std::min_element(costs.begin(), costs.end());
    if (*least == kForbidden) return {};
    states[elimination_.plan().buckets[i].v] = static_cast<int>(least - costs.begin());
    budget.spend(static_cast<std::int64_t>(costs.size()) * 4);
  }
  return states;
}

bool TreeSearch::is_hopeless(double bound, const std::vector<double>& amounts, int bucket,
                             const Incumbent& best) const {
  if (bound == kForbidden || best.is_reached_by(bound - penalty_)) return true;
  for (std::size_t cap = 0; cap < amounts.size(); ++cap) {
    const double rest = bucket > 0 ? least_[cap][bucket - 1] : 0.0;
    if (!is_within(amounts[cap] + rest, core_.limits[cap])) return true;
  }
  return false;
}

TreeSearch::Frame TreeSearch::open(int bucket, double bound, std::vector<double> amounts,
                                   const std::vector<int>& states, const Incumbent& best,
                                   Budget& budget) const {
  Frame frame{.amounts = std::move(amounts)};
  const std::vector<double> costs = elimination_.excess(bucket, states);
  for (std::size_t s = 0; s < costs.size(); ++s) {
    const double with = bound + costs[s];
    if (with == kForbidden || best.is_reached_by(with - penalty_)) continue;
    frame.options.emplace_back(with, static_cast<int>(s));
  }
  std::sort(frame.options.begin(), frame.options.end());
  budget.spend(static_cast<std::int64_t>(costs.size()) * 8);
  return frame;
}

/// All variables have states, the penalised cost of which is `bound`.
void TreeSearch::offer_leaf(double bound, const std::vector<double>& amounts,
                            const std::vector<int>& states, Incumbent& best, Budget& budget) const {
  double cost = bound;
  for (std::size_t cap = 0; cap < amounts.size(); ++cap) cost -= multipliers_[cap] * amounts[cap];
  if (best.is_reached_by(cost)) return;
  budget.spend(static_cast<std::int64_t>(core_.links.size()));
  offer(core_, states, best);
}

bool TreeSearch::improve(double bound, Incumbent& best, Budget& budget) const {
  const int num_buckets = static_cast<int>(elimination_.plan().buckets.size());
  std::vector<int> states(core_.unary.size(), 0);
  std::vector<double> none(core_.limits.size(), 0.0);
  if (best.is_reached_by(bound - penalty_)) return true;
  if (num_buckets == 0) {
    offer(core_, states, best);
    return true;
  }
  std::vector<Frame> frames;
  frames.push_back(open(num_buckets - 1, bound, none, states, best, budget));
  while (!frames.empty()) {
    if (budget.is_over()) return false;
    Frame& frame = frames.back();
    if (frame.next == frame.options.size()) {
      frames.pop_back();
      continue;
    }
    const auto [with, state] = frame.options[frame.next++];
    const int bucket = num_buckets - static_cast<int>(frames.size());
    const int v = elimination_.plan().buckets[bucket].v;
    std::vector<double> amounts = frame.amounts;
    for (std::size_t cap = 0; cap < amounts.size(); ++cap) {
      amounts[cap] += core_.amount(static_cast<int>(cap), v, state);
    }
    if (is_hopeless(with, amounts, bucket, best)) continue;
    states[v] = state;
    if (bucket == 0) {
      offer_leaf(with, amounts, states, best, budget);
    } else {
      frames.push_back(open(bucket - 1, with, std::move(amounts), states, best, budget));
    }
  }
  return true;
}

}  // namespace tessera::network
