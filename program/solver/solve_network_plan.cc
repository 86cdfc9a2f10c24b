#include "program/solver/solve_network_plan.h"

#include <algorithm>
#include <utility>

#include "program/solver/solve_network_bucket.h"

namespace tessera::network {
namespace {

/// Which variable goes next.
enum class Preference {
  kSmallTable,   ///< whose message is smallest
  kSmallGrowth,  ///< whose message is smallest beside the tables that it replaces
};

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Eliminates without costs: which tables there would be.
class Planner {
 public:
  Planner(const Core& core, Preference preference) : preference_(preference) {
    const int n = core.num_variables();
    for (int v = 0; v < n; ++v) plan_.partitions.emplace_back(core.num_states(v));
    of_.resize(static_cast<std::size_t>(n));
    for (const Link& link : core.links) {
      add_factor({{link.a, plan_.partitions[link.a].add(link.port_a, link.rows)},
                  {link.b, plan_.partitions[link.b].add(link.port_b, link.columns)}});
    }
    is_gone_.assign(static_cast<std::size_t>(n), 0);
    keys_.resize(static_cast<std::size_t>(n));
    for (int v = 0; v < n; ++v) update_key(v);
  }

  EliminationPlan run(std::int64_t max_table, double max_work) {
    for (std::size_t i = 0; i < is_gone_.size(); ++i) {
      eliminate(next(), static_cast<double>(max_table));
      if (plan_.work > max_work) break;
    }
    return std::move(plan_);
  }

  std::vector<int> cutset(std::int64_t max_table, std::uint64_t seed) {
    std::vector<int> cut;
    for (std::size_t left = is_gone_.size(); left > 0; --left) {
      const int v = next();
      if (keys_[v].size <= static_cast<double>(max_table)) {
        eliminate(v, static_cast<double>(max_table));
      } else {
        cut.push_back(most_linked(v, seed));
        fix(cut.back());
      }
    }
    std::sort(cut.begin(), cut.end());
    return cut;
  }

 private:
  struct Key {
    double size = 0.0;   ///< entries of its message
    double order = 0.0;  ///< least goes first
  };

  void add_factor(std::vector<Axis> axes) {
    for (const Axis& axis : axes) of_[axis.v].push_back(static_cast<int>(shapes_.size()));
    plan_.factors.push_back(axes);
    shapes_.push_back({std::move(axes), nullptr});
  }
  double size_of(const std::vector<Axis>& axes) const {
    double size = 1.0;
    for (const Axis& axis : axes) size *= plan_.partitions[axis.v].count(axis.partition);
    return size;
  }
  std::vector<const Factor*> shapes(const std::vector<int>& factors) const {
    std::vector<const Factor*> result;
    for (const int factor : factors) result.push_back(&shapes_[factor]);
    return result;
  }
  std::vector<Axis> axes_of(int v, const std::vector<int>& factors) {
    return joined_axes(plan_.partitions, v, shapes(factors));
  }

  void update_key(int v) {
    Key& key = keys_[v];
    key.size = size_of(axes_of(v, of_[v]));
    key.order = key.size;
    if (preference_ == Preference::kSmallGrowth) {
      for (const int factor : of_[v]) key.order -= size_of(shapes_[factor].axes);
    }
  }
  int next() const {
    int best = -1;
    for (int v = 0; v < static_cast<int>(keys_.size()); ++v) {
      if (is_gone_[v] != 0) continue;
      if (best < 0 || keys_[v].order < keys_[best].order) best = v;
    }
    return best;
  }

  /// Tables of v in groups whose messages are small enough, the largest first.
  std::vector<std::vector<int>> groups_of(int v, double max_table) {
    if (keys_[v].size <= max_table) return {of_[v]};
    plan_.is_exact = false;
    std::vector<int> factors = of_[v];
    std::stable_sort(factors.begin(), factors.end(), [&](int x, int y) {
      return size_of(shapes_[x].axes) > size_of(shapes_[y].axes);
    });
    std::vector<std::vector<int>> groups;
    for (const int factor : factors) {
      const auto fitting = std::find_if(groups.begin(), groups.end(), [&](std::vector<int> group) {
        group.push_back(factor);
        return size_of(axes_of(v, group)) <= max_table;
      });
      (fitting == groups.end() ? groups.emplace_back() : *fitting).push_back(factor);
    }
    for (std::vector<int>& group : groups) std::sort(group.begin(), group.end());
    return groups;
  }

  void eliminate(int v, double max_table) {
    PlannedBucket bucket{.v = v};
    for (std::vector<int>& group : groups_of(v, max_table)) {
      BucketTask task{.v = v, .factors = shapes(group), .kept = axes_of(v, group)};
      plan_.work += order_axes(plan_.partitions, task);
      bucket.minis.push_back({std::move(group), std::move(task.kept)});
    }
    const std::vector<int> neighbours = remove(v);
    for (MiniBucket& mini : bucket.minis) {
      if (mini.axes.empty()) continue;
      mini.message = static_cast<int>(shapes_.size());
      plan_.entries += size_of(mini.axes);
      add_factor(mini.axes);
    }
    for (const int w : neighbours) update_key(w);
    plan_.buckets.push_back(std::move(bucket));
  }

  /// The variable and its tables: others see them no more. Returns the others.
  std::vector<int> remove(int v) {
    std::vector<int> neighbours;
    for (const Axis& axis : axes_of(v, of_[v])) neighbours.push_back(axis.v);
    is_gone_[v] = 1;
    for (const int w : neighbours) {
      std::erase_if(of_[w], [&](int factor) {
        return std::find(of_[v].begin(), of_[v].end(), factor) != of_[v].end();
      });
    }
    return neighbours;
  }

  /// Gives the variable one state: its tables lose an axis.
  void fix(int v) {
    is_gone_[v] = 1;
    const std::vector<Axis> neighbours = axes_of(v, of_[v]);
    for (const int factor : of_[v]) {
      std::erase_if(shapes_[factor].axes, [v](const Axis& axis) { return axis.v == v; });
    }
    for (const Axis& axis : neighbours) update_key(axis.v);
  }

  int most_linked(int v, std::uint64_t seed) {
    int best = v;
    std::pair<double, std::uint64_t> most{0.0, 0};
    std::vector<Axis> axes = axes_of(v, of_[v]);
    for (const Axis& axis : axes) {
      const std::uint64_t dice = mixed(seed * 0x9e3779b97f4a7c15ULL + axis.v + 1);
      // Chance moves a variable by one table or two.
      const double weight = static_cast<double>(of_[axis.v].size()) + static_cast<double>(dice % 3);
      if (std::pair(weight, dice) > most) {
        most = {weight, dice};
        best = axis.v;
      }
    }
    return best;
  }

  const Preference preference_;
  EliminationPlan plan_;
  std::vector<Factor> shapes_;        ///< without costs
  std::vector<std::vector<int>> of_;  ///< tables that are left, of each variable
  std::vector<char> is_gone_;
  std::vector<Key> keys_;
};

}  // namespace

EliminationPlan plan_elimination(const Core& core, std::int64_t max_table) {
  EliminationPlan first = Planner(core, Preference::kSmallTable).run(max_table, kForbidden);
  EliminationPlan second = Planner(core, Preference::kSmallGrowth).run(max_table, first.work);
  const bool second_is_whole = second.buckets.size() == first.buckets.size();
  if (!second_is_whole || (first.is_exact && !second.is_exact)) return first;
  return second.work < first.work || (second.is_exact && !first.is_exact) ? std::move(second)
                                                                          : std::move(first);
}

std::vector<int> find_cutset(const Core& core, std::int64_t max_table, std::uint64_t seed) {
  return Planner(core, Preference::kSmallTable).cutset(max_table, seed);
}

}  // namespace tessera::network
