#include "program/solver/solve_network_reduce.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "absl/container/flat_hash_map.h"

namespace tessera::network {
namespace {

/// States that others are compared with, the cheapest by themselves first.
constexpr int kMaxRivals = 64;
constexpr int kMaxRounds = 8;

/// Ports of one side of a link that have a finite cost with some port of the other side.
std::vector<char> supported_ports(const Link& link, bool of_a) {
  std::vector<char> result(static_cast<std::size_t>(of_a ? link.rows : link.columns));
  std::vector<char> rows(static_cast<std::size_t>(link.rows)),
      columns(static_cast<std::size_t>(link.columns));
  for (const std::uint16_t port : link.port_a) rows[port] = 1;
  for (const std::uint16_t port : link.port_b) columns[port] = 1;
  for (int r = 0; r < link.rows; ++r) {
    if (rows[r] == 0) continue;
    for (int c = 0; c < link.columns; ++c) {
      if (columns[c] != 0 && link.row(r)[c] != kForbidden) result[of_a ? r : c] = 1;
    }
  }
  return result;
}

/// What a port of one side costs more than another, at most: [by][port], computed when asked.
class PortExcess {
 public:
  PortExcess(const Link& link, bool of_a)
      : ports_(of_a ? link.port_a : link.port_b),
        count_(of_a ? link.rows : link.columns),
        size_(of_a ? link.columns : link.rows),
        costs_(link.costs),
        known_(static_cast<std::size_t>(count_) * count_,
               std::numeric_limits<double>::quiet_NaN()) {
    if (of_a) return;
    for (int r = 0; r < link.rows; ++r) {
      for (int c = 0; c < link.columns; ++c) {
        costs_[static_cast<std::size_t>(c) * size_ + r] = link.row(r)[c];
      }
    }
  }

  double at(int by_state, int state) {
    const int by = ports_[by_state], port = ports_[state];
    if (by == port) return 0.0;
    double& known = known_[static_cast<std::size_t>(by) * count_ + port];
    if (known != known) known = computed(by, port);
    return known;
  }

 private:
  double computed(int by, int port) const {
    const double* __restrict dear = costs_.data() + static_cast<std::size_t>(by) * size_;
    const double* __restrict cheap = costs_.data() + static_cast<std::size_t>(port) * size_;
    double most = -kForbidden;
    for (int q = 0; q < size_; ++q) {
      // Where both are forbidden this is not a number, and not more than any.
      const double more = dear[q] - cheap[q];
      most = more > most ? more : most;
    }
    return most;
  }

  const std::vector<std::uint16_t>& ports_;
  const int count_, size_;
  std::vector<double> costs_;  ///< [port, the other side's port]
  std::vector<double> known_;
};

/// States of v, the dearest first: of two that replace each other the later one goes.
std::vector<int> dearest_first(const std::vector<double>& costs) {
  std::vector<int> order(costs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int x, int y) { return costs[x] != costs[y] ? costs[x] > costs[y] : x > y; });
  return order;
}

int drop_dominated_of(Core& core, const std::vector<std::vector<int>>& links_of, int v) {
  const int num_states = core.num_states(v);
  if (num_states <= 1) return 0;
  std::vector<PortExcess> excess;
  excess.reserve(links_of[v].size());
  for (const int i : links_of[v]) excess.emplace_back(core.links[i], core.links[i].a == v);
  const std::vector<int> order = dearest_first(local_bounds(core, v, links_of[v]));
  std::vector<char> keep(static_cast<std::size_t>(num_states), 1);
  int dropped = 0;
  for (const int state : order) {
    int rivals = 0;
    for (auto by = order.rbegin(); by != order.rend() && rivals < kMaxRivals; ++by) {
      if (*by == state || keep[*by] == 0) continue;
      ++rivals;
      double extra = 0.0;
      for (PortExcess& each : excess) {
        extra += each.at(*by, state);
        if (extra == kForbidden) break;
      }
      if (extra == kForbidden || !is_dominated(core, v, state, *by, extra)) continue;
      keep[state] = 0;
      core.dropped.push_back({.v = v, .state = core.state_of[v][state]});
      ++dropped;
      break;
    }
  }
  if (dropped > 0) keep_states(core, links_of, v, keep);
  return dropped;
}

int drop_alike_of(Core& core, const std::vector<std::vector<int>>& links_of, int v) {
  const int num_states = core.num_states(v);
  absl::flat_hash_map<std::vector<std::uint16_t>, std::vector<int>> groups;
  std::vector<int> order = dearest_first(core.unary[v]);
  std::reverse(order.begin(), order.end());
  std::vector<char> keep(static_cast<std::size_t>(num_states));
  int dropped = 0;
  for (const int state : order) {
    std::vector<std::uint16_t> ports;
    for (const int i : links_of[v]) {
      ports.push_back((core.links[i].a == v ? core.links[i].port_a : core.links[i].port_b)[state]);
    }
    std::vector<int>& kept = groups[ports];
    const auto by = std::find_if(kept.begin(), kept.end(), [&](int other) {
      return is_dominated(core, v, state, other, 0.0);
    });
    if (by == kept.end()) {
      keep[state] = 1;
      kept.push_back(state);
      continue;
    }
    core.dropped.push_back({v, core.state_of[v][state], core.state_of[v][*by],
                            core.unary[v][state] - core.unary[v][*by]});
    ++dropped;
  }
  if (dropped > 0) keep_states(core, links_of, v, keep);
  return dropped;
}

}  // namespace

std::vector<double> local_bounds(const Core& core, int v, const std::vector<int>& links) {
  std::vector<double> bounds = core.unary[v];
  for (const int i : links) {
    const Link& link = core.links[i];
    const bool of_a = link.a == v;
    std::vector<double> least(static_cast<std::size_t>(of_a ? link.rows : link.columns),
                              kForbidden);
    for (int r = 0; r < link.rows; ++r) {
      for (int c = 0; c < link.columns; ++c) {
        double& low = least[of_a ? r : c];
        low = std::min(low, link.row(r)[c]);
      }
    }
    for (std::size_t s = 0; s < bounds.size(); ++s) {
      bounds[s] += least[(of_a ? link.port_a : link.port_b)[s]];
    }
  }
  return bounds;
}

bool is_dominated(const Core& core, int v, int state, int by, double extra) {
  if (core.unary[v][by] + extra > core.unary[v][state]) return false;
  for (std::size_t cap = 0; cap < core.limits.size(); ++cap) {
    const int number = static_cast<int>(cap);
    if (core.amount(number, v, by) > core.amount(number, v, state)) return false;
  }
  return true;
}

int drop_forbidden(Core& core) {
  const std::vector<std::vector<int>> links_of = core.links_of();
  std::vector<int> queue(core.unary.size());
  std::iota(queue.begin(), queue.end(), 0);
  std::vector<char> is_queued(core.unary.size(), 1);
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const int v = queue[next];
    is_queued[v] = 0;
    std::vector<char> keep(core.unary[v].size());
    for (std::size_t s = 0; s < keep.size(); ++s) keep[s] = core.unary[v][s] != kForbidden;
    for (const int i : links_of[v]) {
      const Link& link = core.links[i];
      const std::vector<char> supported = supported_ports(link, link.a == v);
      const std::vector<std::uint16_t>& ports = link.a == v ? link.port_a : link.port_b;
      for (std::size_t s = 0; s < keep.size(); ++s) keep[s] &= supported[ports[s]];
    }
    if (std::count(keep.begin(), keep.end(), 0) == 0) {
      if (keep.empty()) return v;
      continue;
    }
    keep_states(core, links_of, v, keep);
    if (core.unary[v].empty()) return v;
    for (const int i : links_of[v]) {
      const int other = core.links[i].a == v ? core.links[i].b : core.links[i].a;
      if (is_queued[other] != 0) continue;
      is_queued[other] = 1;
      queue.push_back(other);
    }
  }
  compress(core);
  return -1;
}

int drop_alike(Core& core) {
  const std::vector<std::vector<int>> links_of = core.links_of();
  int dropped = 0;
  for (int v = 0; v < core.num_variables(); ++v) dropped += drop_alike_of(core, links_of, v);
  if (dropped > 0) compress(core);
  return dropped;
}

int drop_dominated(Core& core) {
  const std::vector<std::vector<int>> links_of = core.links_of();
  int dropped = 0;
  for (int v = 0; v < core.num_variables(); ++v) dropped += drop_dominated_of(core, links_of, v);
  if (dropped > 0) compress(core);
  return dropped;
}

int reduce(Core& core, Dominance dominance) {
  for (int round = 0; round < kMaxRounds; ++round) {
    if (const int empty = drop_forbidden(core); empty >= 0) return empty;
    int dropped = drop_alike(core);
    if (dominance == Dominance::kFull) dropped += drop_dominated(core);
    if (dropped == 0) break;
  }
  return -1;
}

}  // namespace tessera::network
