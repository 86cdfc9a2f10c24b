#include "program/solver/solve_network_eliminate.h"

#include <algorithm>

namespace tessera::network {

Elimination::Elimination(const Core& core, EliminationPlan& plan) : core_(core), plan_(plan) {
  for (const std::vector<Axis>& axes : plan.factors) factors_.push_back({axes});
  for (std::size_t i = 0; i < core.links.size(); ++i)
    factors_[i].costs = core.links[i].costs.data();
  messages_.resize(factors_.size());
}

double Elimination::run(const std::vector<std::vector<double>>& unary) {
  unary_ = &unary;
  work_ += static_cast<std::int64_t>(plan_.work);
  double bound = core_.base;
  numbers_.clear();
  for (const PlannedBucket& bucket : plan_.buckets) {
    double& number = numbers_.emplace_back(0.0);
    const std::vector<std::vector<double>> shared = shared_costs(bucket);
    for (std::size_t m = 0; m < bucket.minis.size(); ++m) {
      const MiniBucket& mini = bucket.minis[m];
      BucketTask task{.v = bucket.v, .unary = unary[bucket.v], .kept = mini.axes};
      if (!shared.empty()) task.unary = shared[m];
      for (const int factor : mini.factors) task.factors.push_back(&factors_[factor]);
      std::vector<double> message = bucket_minimum(plan_.partitions, task);
      if (mini.message < 0) {
        bound += message[0];
        number += message[0];
      } else {
        messages_[mini.message] = std::move(message);
        factors_[mini.message].costs = messages_[mini.message].data();
      }
    }
  }
  return bound;
}

/// A variable's own costs, given out to its mini-buckets so that all of them find the same least
/// cost of each of its states. Empty where there is but one.
std::vector<std::vector<double>> Elimination::shared_costs(const PlannedBucket& bucket) {
  if (bucket.minis.size() <= 1) return {};
  const std::vector<double>& own = (*unary_)[bucket.v];
  std::vector<double> total = own;
  std::vector<std::vector<double>> shares;
  Partitions& partitions = plan_.partitions[bucket.v];
  for (const MiniBucket& mini : bucket.minis) {
    const std::vector<double> none(own.size(), 0.0);
    BucketTask task{.v = bucket.v, .unary = none, .minimised = mini.axes};
    for (const int factor : mini.factors) {
      task.factors.push_back(&factors_[factor]);
      for (const Axis& axis : factors_[factor].axes) {
        if (axis.v == bucket.v) task.out = partitions.join(task.out, axis.partition);
      }
    }
    work_ += static_cast<std::int64_t>(order_axes(plan_.partitions, task));
    const std::vector<double> least = bucket_minimum(plan_.partitions, task);
    std::vector<double>& share = shares.emplace_back();
    for (const std::uint16_t c : partitions.classes(task.out)) share.push_back(least[c]);
    for (std::size_t s = 0; s < own.size(); ++s) total[s] += share[s];
  }
  for (std::vector<double>& share : shares) {
    for (std::size_t s = 0; s < own.size(); ++s) {
      share[s] = total[s] == kForbidden ? kForbidden
                                        : total[s] / static_cast<double>(shares.size()) - share[s];
    }
  }
  return shares;
}

Elimination::Line Elimination::line(int factor, int v, const std::vector<int>& states) const {
  Line line{.at = factors_[factor].costs};
  std::int64_t stride = 1;
  const std::vector<Axis>& axes = factors_[factor].axes;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    const Partitions& partitions = plan_.partitions[axis->v];
    const Classes& classes = partitions.classes(axis->partition);
    if (axis->v == v) {
      line.stride = stride;
      line.classes = &classes;
    } else {
      line.at += classes[states[axis->v]] * stride;
    }
    stride *= partitions.count(axis->partition);
  }
  return line;
}

std::vector<double> Elimination::excess(int i, const std::vector<int>& states) const {
  const PlannedBucket& bucket = plan_.buckets[i];
  std::vector<double> costs = (*unary_)[bucket.v];
  double foretold = numbers_[i];
  for (const MiniBucket& mini : bucket.minis) {
    if (mini.message >= 0) foretold += *line(mini.message, -1, states).at;
    for (const int factor : mini.factors) {
      const Line each = line(factor, bucket.v, states);
      for (std::size_t s = 0; s < costs.size(); ++s) {
        costs[s] += each.at[(*each.classes)[s] * each.stride];
      }
    }
  }
  for (double& cost : costs) cost -= foretold;
  return costs;
}

/// What the bucket's variable sees but for table `without`, the message from above included.
BucketTask Elimination::task_of(const PlannedBucket& bucket, int without) {
  const MiniBucket& mini = bucket.minis.front();
  BucketTask task{.v = bucket.v, .unary = (*unary_)[bucket.v]};
  for (const int factor : mini.factors) {
    if (factor != without) task.factors.push_back(&factors_[factor]);
  }
  if (mini.message >= 0) task.factors.push_back(&down_factors_[mini.message]);
  return task;
}

/// The least over the cells of `fine` axes in each cell of `coarse` ones, of the same variables in
/// any order.
std::vector<double> Elimination::coarsened(const std::vector<double>& costs,
                                           const std::vector<Axis>& fine,
                                           const std::vector<Axis>& coarse) const {
  std::vector<std::vector<std::size_t>> to(fine.size());
  std::size_t stride = 1;
  for (std::size_t i = coarse.size(); i-- > 0;) {
    const Partitions& partitions = plan_.partitions[coarse[i].v];
    const auto at = std::find_if(fine.begin(), fine.end(),
                                 [&](const Axis& axis) { return axis.v == coarse[i].v; });
    for (const std::uint16_t c : partitions.map(at->partition, coarse[i].partition)) {
      to[static_cast<std::size_t>(at - fine.begin())].push_back(c * stride);
    }
    stride *= static_cast<std::size_t>(partitions.count(coarse[i].partition));
  }
  std::vector<double> result(stride, kForbidden);
  std::vector<std::size_t> index(fine.size());
  for (const double cost : costs) {
    std::size_t cell = 0;
    for (std::size_t i = 0; i < fine.size(); ++i) cell += to[i][index[i]];
    result[cell] = std::min(result[cell], cost);
    for (std::size_t i = fine.size(); i-- > 0 && ++index[i] == to[i].size();) index[i] = 0;
  }
  return result;
}

/// To the bucket that sent table `child`, over the same axes: the least of all else.
std::vector<double> Elimination::message_down(const PlannedBucket& bucket, int child) {
  BucketTask task = task_of(bucket, child);
  const std::vector<Axis>& axes = factors_[child].axes;
  for (const Axis& axis : joined_axes(plan_.partitions, bucket.v, task.factors)) {
    const bool is_kept =
        std::any_of(axes.begin(), axes.end(), [&](const Axis& each) { return each.v == axis.v; });
    (is_kept ? task.kept : task.minimised).push_back(axis);
  }
  Axis own;
  for (const Axis& axis : axes) {
    if (axis.v == bucket.v) own = axis;
  }
  task.out = own.partition;
  work_ += static_cast<std::int64_t>(order_axes(plan_.partitions, task));
  const std::vector<double> costs = bucket_minimum(plan_.partitions, task);
  std::vector<Axis> fine = task.kept;
  fine.push_back(own);
  return coarsened(costs, fine, axes);
}

std::vector<std::vector<double>> Elimination::marginals() {
  down_.assign(factors_.size(), {});
  down_factors_.assign(factors_.size(), {});
  std::vector<std::vector<double>> result(core_.unary.size());
  for (auto bucket = plan_.buckets.rbegin(); bucket != plan_.buckets.rend(); ++bucket) {
    for (const int factor : bucket->minis.front().factors) {
      if (factor < static_cast<int>(core_.links.size())) continue;
      down_[factor] = message_down(*bucket, factor);
      down_factors_[factor] = {factors_[factor].axes, down_[factor].data()};
    }
    BucketTask task = task_of(*bucket, -1);
    task.minimised = joined_axes(plan_.partitions, bucket->v, task.factors);
    task.out = plan_.partitions[bucket->v].all_apart();
    work_ += static_cast<std::int64_t>(order_axes(plan_.partitions, task));
    result[bucket->v] = bucket_minimum(plan_.partitions, task);
  }
  return result;
}

}  // namespace tessera::network
