#include "program/solver/solve_network_dual.h"

#include <algorithm>

#include "program/solver/solve_network_reduce.h"

namespace tessera::network {
namespace {

constexpr int kMaxSweeps = 200;
/// Sweeps end when ten of them close less than this part of the gap.
constexpr double kLeastProgress = 0.01;

class MessagePassing {
 public:
  explicit MessagePassing(Core& core) : core_(core), links_of_(core.links_of()) {}

  std::int64_t work() const {
    std::int64_t entries = 0;
    for (const Link& link : core_.links) entries += std::ssize(link.costs);
    return 8 * entries;
  }

  /// All variables in order, or in reverse order.
  void sweep(bool is_forward) {
    const int n = core_.num_variables();
    for (int i = 0; i < n; ++i) visit(is_forward ? i : n - 1 - i, is_forward);
  }

 private:
  void visit(int v, bool is_forward) {
    if (links_of_[v].empty() && core_.unary[v].size() == 1) {
      core_.base += core_.unary[v][0];
      core_.unary[v][0] = 0.0;
      return;
    }
    int ahead = 0;
    for (const int i : links_of_[v]) {
      collect(core_.links[i], v);
      ahead += is_ahead(core_.links[i], v, is_forward) ? 1 : 0;
    }
    std::vector<double>& costs = core_.unary[v];
    const double least = *std::min_element(costs.begin(), costs.end());
    core_.base += least;
    if (least == kForbidden) return;
    for (double& cost : costs) cost -= least;
    if (ahead == 0) return;
    const int behind = static_cast<int>(links_of_[v].size()) - ahead;
    give(v, 1.0 / std::max(ahead, behind), is_forward);
  }

  static bool is_ahead(const Link& link, int v, bool is_forward) {
    return ((link.a == v ? link.b : link.a) > v) == is_forward;
  }

  /// The least of each of the variable's ports moves from the link to its states.
  void collect(Link& link, int v) {
    const bool of_a = link.a == v;
    least_.assign(static_cast<std::size_t>(of_a ? link.rows : link.columns), kForbidden);
    for (int r = 0; r < link.rows; ++r) {
      const double* row = link.row(r);
      if (of_a) {
        least_[r] = *std::min_element(row, row + link.columns);
      } else {
        for (int c = 0; c < link.columns; ++c) least_[c] = std::min(least_[c], row[c]);
      }
    }
    const std::vector<std::uint16_t>& ports = of_a ? link.port_a : link.port_b;
    for (std::size_t s = 0; s < ports.size(); ++s) core_.unary[v][s] += least_[ports[s]];
    for (double& each : least_) each = each == kForbidden ? 0.0 : -each;
    add(link, of_a);
  }

  /// To each link ahead, a share of the least cost of the states that have a port.
  void give(int v, double share, bool is_forward) {
    std::vector<double>& costs = core_.unary[v];
    const std::vector<double> before = costs;
    for (const int i : links_of_[v]) {
      Link& link = core_.links[i];
      if (!is_ahead(link, v, is_forward)) continue;
      const bool of_a = link.a == v;
      const std::vector<std::uint16_t>& ports = of_a ? link.port_a : link.port_b;
      least_.assign(static_cast<std::size_t>(of_a ? link.rows : link.columns), kForbidden);
      for (std::size_t s = 0; s < ports.size(); ++s) {
        least_[ports[s]] = std::min(least_[ports[s]], before[s]);
      }
      for (double& each : least_) each = each == kForbidden ? 0.0 : share * each;
      for (std::size_t s = 0; s < ports.size(); ++s) {
        // Rounding may not leave a negative cost.
        costs[s] = std::max(0.0, costs[s] - least_[ports[s]]);
      }
      add(link, of_a);
    }
  }

  /// Adds least_ to the costs of the variable's ports.
  void add(Link& link, bool of_a) const {
    for (int r = 0; r < link.rows; ++r) {
      double* row = link.row(r);
      for (int c = 0; c < link.columns; ++c) {
        row[c] = std::max(0.0, row[c] + least_[of_a ? r : c]);
      }
    }
  }

  Core& core_;
  const std::vector<std::vector<int>> links_of_;
  std::vector<double> least_;  ///< of each port
};

}  // namespace

void raise_base(Core& core, double goal, Budget& budget) {
  MessagePassing passing(core);
  const std::int64_t work = passing.work();
  double before = core.base;
  for (int i = 0; i < kMaxSweeps && !budget.is_over(); ++i) {
    passing.sweep(i % 2 == 0);
    budget.spend(work);
    if (core.base >= goal) return;
    if (i % 10 != 9) continue;
    const double room = goal == kForbidden ? core.base : goal - before;
    if (core.base - before < kLeastProgress * room) return;
    before = core.base;
  }
}

int drop_dear(Core& core, double cost) {
  const std::vector<std::vector<int>> links_of = core.links_of();
  int dropped = 0;
  for (int v = 0; v < core.num_variables(); ++v) {
    std::vector<char> keep;
    for (const double each : local_bounds(core, v, links_of[v]))
      keep.push_back(core.base + each < cost);
    const auto dear = std::count(keep.begin(), keep.end(), 0);
    if (dear == 0) continue;
    dropped += static_cast<int>(dear);
    keep_states(core, links_of, v, keep);
  }
  return dropped;
}

}  // namespace tessera::network
