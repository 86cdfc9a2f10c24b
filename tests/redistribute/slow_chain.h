// tests/redistribute/slow_chain.h: the cheapest chain of one-axis collectives by a search that
// makes a spec of each layout and asks cost_of() for each step.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "placement/plan_cost.h"
#include "placement/plan_roles.h"
#include "placement/plan_step.h"
#include "placement/reduce_op.h"

namespace tessera::slow {

struct ChainLimits {
  double budget_us = 0;
  std::int64_t budget_bytes = 0;
};

// Chains of more steps than this never pay: each one moves data once more.
inline constexpr std::size_t kMostSteps = 6;
// Far more layouts than the planner looks at.
inline constexpr std::size_t kMostLayouts = 100000;

inline bool has_only_axes(const Layout& layout) {
  for (const Levels& levels : layout.dims) {
    for (const Level& level : levels) {
      if (level.kind != Level::Kind::kAxis) return false;
    }
  }
  return true;
}

/// A layout reached, and the best way to it.
struct Reached {
  Spec spec;
  double us = 0;
  double least_us = 0;  ///< with what any way on must cost at least
  std::int64_t bytes = 0;
  std::vector<PlanStep> steps;
};

class ChainSearch {
 public:
  ChainSearch(const Spec& dst, const Topology& topology, const ChainLimits& limits)
      : dst_(dst), topology_(topology), limits_(limits) {
    for (const LinkClass& link : topology.links) {
      latency_us_ = std::min(latency_us_, link.latency_us);
      gb_per_s_ = std::max(gb_per_s_, link.gb_per_s);
    }
  }

  std::optional<std::vector<PlanStep>> from(const Spec& src) {
    push({src, 0, 0, 0, {}});
    std::map<std::string, bool> settled;
    while (!queue_.empty() && settled.size() < kMostLayouts) {
      Reached at = queue_.top();
      queue_.pop();
      if (!settled.try_emplace(key_of(at.spec), true).second) continue;
      if (at.spec.layout() == dst_.layout()) return std::move(at.steps);
      if (at.steps.size() < kMostSteps) expand(at);
    }
    return std::nullopt;
  }

 private:
  struct Later {
    bool operator()(const Reached& a, const Reached& b) const {
      if (a.least_us != b.least_us) return a.least_us > b.least_us;
      return a.steps.size() > b.steps.size();
    }
  };

  static std::string key_of(const Spec& spec) { return spec.to_string(); }

  /// What any way from `at` costs at least.
  double least_us(const Spec& at) {
    if (at.layout() == dst_.layout()) return 0;
    const auto [found, added] = least_.try_emplace(key_of(at), 0.0);
    if (added) {
      const auto bytes = static_cast<double>(lower_bound(at, dst_).max);
      found->second = bytes == 0 ? 0 : topology_.step_us + latency_us_ + bytes / (gb_per_s_ * 1e3);
    }
    return found->second;
  }

  void push(Reached reached) { queue_.push(std::move(reached)); }

  void expand(const Reached& at) {
    const Layout& layout = at.spec.layout();
    for (int axis = 0; axis < at.spec.mesh().ndim(); ++axis) {
      if (at.spec.mesh().size(axis) == 1) continue;
      const auto a = static_cast<std::size_t>(axis);
      const int dim = layout.dim_of_axis(axis);
      Layout free = layout;
      if (layout.partial[a]) {
        if (dst_.layout().partial[a] || reduces_later(layout, axis)) continue;
        free.partial[a].reset();
      } else if (dim >= 0) {
        Levels& levels = free.dims[static_cast<std::size_t>(dim)];
        if (levels.back().axis != axis) continue;
        levels.pop_back();
      }
      if (dim >= 0 || layout.partial[a]) move(at, free);
      for (std::size_t d = 0; d < layout.dims.size(); ++d) {
        if (static_cast<int>(d) == dim) continue;
        Layout next = free;
        next.dims[d].push_back(Level::of_axis(axis));
        move(at, std::move(next));
      }
    }
  }

  /// A Partial axis to the right of another kind reduces first.
  static bool reduces_later(const Layout& layout, int axis) {
    const ReduceOp op = *layout.partial[static_cast<std::size_t>(axis)];
    for (std::size_t b = static_cast<std::size_t>(axis) + 1; b < layout.partial.size(); ++b) {
      if (layout.partial[b] && !commute(*layout.partial[b], op)) return true;
    }
    return false;
  }

  void move(const Reached& at, Layout next) {
    Spec to = with_layout(at.spec, std::move(next));
    if (to.layout() == at.spec.layout()) return;
    const double on_us = least_us(to);
    if (at.us + on_us >= limits_.budget_us) return;
    PlanStep step = direct_step(at.spec, to);
    const StepCost cost = cost_of(step, &topology_);
    const double us = at.us + cost.estimated_us;
    Reached reached{std::move(to), us, us + on_us, at.bytes + cost.bytes_received.total, at.steps};
    if (reached.least_us >= limits_.budget_us || reached.bytes > limits_.budget_bytes) return;
    reached.steps.push_back(std::move(step));
    push(std::move(reached));
  }

  const Spec& dst_;
  const Topology& topology_;
  const ChainLimits& limits_;
  double latency_us_ = INFINITY, gb_per_s_ = 0;  ///< of the best link
  std::map<std::string, double> least_;
  std::priority_queue<Reached, std::vector<Reached>, Later> queue_;
};

inline std::optional<std::vector<PlanStep>> cheapest_chain(const Spec& src, const Spec& dst,
                                                           const Topology& topology,
                                                           const ChainLimits& limits) {
  if (!has_only_axes(src.layout()) || !has_only_axes(dst.layout())) return std::nullopt;
  for (std::size_t a = 0; a < dst.layout().partial.size(); ++a) {
    if (dst.layout().partial[a] && dst.layout().partial[a] != src.layout().partial[a]) {
      return std::nullopt;
    }
  }
  return ChainSearch(dst, topology, limits).from(src);
}

}  // namespace tessera::slow
