#include "program/solver/solve_network_bucket.h"

#include <algorithm>
#include <array>
#include <limits>

#include "program/solver/cost_network.h"

namespace tessera::network {
namespace {

/// The partition of v's states that a factor's table has; kAlike where it has no axis of v.
int partition_of(const Factor& factor, int v) {
  for (const Axis& axis : factor.axes) {
    if (axis.v == v) return axis.partition;
  }
  return Partitions::kAlike;
}

bool has_variable(const Factor& factor, int v) {
  return std::any_of(factor.axes.begin(), factor.axes.end(),
                     [v](const Axis& axis) { return axis.v == v; });
}

/// A table with axes in the order of the bucket's loops, as fine as these. The variable's own axis
/// comes last, so that one loop goes over its classes; where the table has the innermost loop's
/// axis, that one comes last.
struct Laid {
  const double* costs = nullptr;
  std::vector<double> own;            ///< where the factor's table is laid out otherwise
  std::vector<std::int64_t> strides;  ///< one a loop, 0 where the table has no such axis
  std::int64_t v_stride = 0;
  int partition = Partitions::kAlike;       ///< of the variable
  int depth = -1;                           ///< the innermost loop that it needs
  std::vector<std::int64_t> class_offsets;  ///< of the classes at that loop
  std::int64_t offset = 0;                  ///< by the loops that run
};

/// One dim of the laid-out table, and what its values are in the factor's.
struct LaidDim {
  int loop = 0;  ///< -1: the variable
  std::int64_t size = 0;
  std::vector<std::int64_t> source;
};

class Bucket {
 public:
  Bucket(std::vector<Partitions>& partitions, const BucketTask& task)
      : partitions_(partitions), task_(task), own_(partitions[task.v]) {
    loops_ = task.kept;
    loops_.insert(loops_.end(), task.minimised.begin(), task.minimised.end());
    num_kept_ = static_cast<int>(task.kept.size());
    num_loops_ = static_cast<int>(loops_.size());
    for (const Axis& axis : loops_) sizes_.push_back(partitions_[axis.v].count(axis.partition));
    laid_.reserve(task.factors.size());
    for (const Factor* factor : task.factors) laid_.push_back(lay_out(*factor));
    set_classes();
  }

  std::vector<double> run() {
    std::vector<std::int64_t>& strides = out_strides_;
    strides.assign(static_cast<std::size_t>(num_kept_), 1);
    std::int64_t size = own_.count(task_.out);
    for (int d = num_kept_; d-- > 0;) {
      strides[d] = size;
      size *= sizes_[d];
    }
    std::vector<double> result(static_cast<std::size_t>(size), kForbidden);
    std::vector<double> start(static_cast<std::size_t>(own_.count(heads_[0])), kForbidden);
    const Classes& classes = own_.classes(heads_[0]);
    for (std::size_t s = 0; s < task_.unary.size(); ++s) {
      start[classes[s]] = std::min(start[classes[s]], own_cost(s));
    }
    keep_loop(0, start.data(), result.data());
    return result;
  }

 private:
  /// The state's own cost, with tables that have no other axis.
  double own_cost(std::size_t s) const {
    double cost = task_.unary[s];
    for (const Laid& table : laid_) {
      if (table.depth < 0) cost += table.costs[own_.classes(table.partition)[s]];
    }
    return cost;
  }

  Laid lay_out(const Factor& factor) const {
    Laid laid{.partition = partition_of(factor, task_.v)};
    std::vector<std::int64_t> source_strides(factor.axes.size(), 1);
    for (std::size_t i = factor.axes.size(); i-- > 1;) {
      const Axis& axis = factor.axes[i];
      source_strides[i - 1] = source_strides[i] * partitions_[axis.v].count(axis.partition);
    }
    std::vector<LaidDim> dims;
    LaidDim own_dim{.loop = -1, .size = 0};
    for (std::size_t i = 0; i < factor.axes.size(); ++i) {
      const Axis& axis = factor.axes[i];
      LaidDim dim = laid_dim(axis, source_strides[i]);
      if (axis.v == task_.v) {
        own_dim = std::move(dim);
      } else {
        laid.depth = std::max(laid.depth, dim.loop);
        dims.push_back(std::move(dim));
      }
    }
    std::sort(dims.begin(), dims.end(),
              [](const LaidDim& x, const LaidDim& y) { return x.loop < y.loop; });
    if (has_variable(factor, task_.v)) {
      const bool before_last = laid.depth >= 0 && laid.depth == num_loops_ - 1;
      dims.insert(before_last ? dims.end() - 1 : dims.end(), std::move(own_dim));
    }
    laid.strides.assign(static_cast<std::size_t>(num_loops_), 0);
    std::int64_t stride = 1;
    for (std::size_t i = dims.size(); i-- > 0;) {
      (dims[i].loop < 0 ? laid.v_stride : laid.strides[dims[i].loop]) = stride;
      stride *= dims[i].size;
    }
    copy_costs(factor, dims, laid);
    return laid;
  }

  LaidDim laid_dim(const Axis& axis, std::int64_t stride) const {
    LaidDim dim;
    const Partitions& parts = partitions_[axis.v];
    if (axis.v == task_.v) {
      dim.loop = -1;
      dim.size = parts.count(axis.partition);
      for (std::int64_t i = 0; i < dim.size; ++i) dim.source.push_back(i * stride);
      return dim;
    }
    while (loops_[dim.loop].v != axis.v) ++dim.loop;
    dim.size = sizes_[dim.loop];
    for (const std::uint16_t coarse : parts.map(loops_[dim.loop].partition, axis.partition)) {
      dim.source.push_back(coarse * stride);
    }
    return dim;
  }

  static void copy_costs(const Factor& factor, const std::vector<LaidDim>& dims, Laid& laid) {
    std::int64_t size = 1;
    bool is_same = true;
    for (std::size_t i = dims.size(); i-- > 0;) {
      for (std::int64_t j = 0; j < dims[i].size; ++j) is_same &= dims[i].source[j] == j * size;
      size *= dims[i].size;
    }
    laid.costs = factor.costs;
    if (is_same) return;
    laid.own.reserve(static_cast<std::size_t>(size));
    append(factor.costs, dims, 0, laid.own);
    laid.costs = laid.own.data();
  }
  static void append(const double* source, const std::vector<LaidDim>& dims, std::size_t i,
                     std::vector<double>& to) {
    if (i == dims.size()) {
      to.push_back(*source);
    } else if (i + 1 == dims.size()) {
      for (const std::int64_t offset : dims[i].source) to.push_back(source[offset]);
    } else {
      for (const std::int64_t offset : dims[i].source) append(source + offset, dims, i + 1, to);
    }
  }

  /// Classes of v that tables still to come tell apart, at each loop; heads_ also those of out.
  void set_classes() {
    tails_.assign(static_cast<std::size_t>(num_loops_) + 1, Partitions::kAlike);
    for (int d = num_loops_; d-- > 0;) {
      tails_[d] = tails_[d + 1];
      for (const Laid& table : laid_) {
        if (table.depth == d) tails_[d] = own_.join(tails_[d], table.partition);
      }
    }
    for (const int tail : tails_) heads_.push_back(own_.join(tail, task_.out));
    for (int d = 0; d < num_loops_; ++d) {
      const std::vector<int>& classes = d < num_kept_ ? heads_ : tails_;
      maps_.push_back(own_.map(classes[d], classes[d + 1]));
      scratch_.emplace_back(
          static_cast<std::size_t>(own_.count(classes[d < num_kept_ ? d + 1 : d])));
      sums_.emplace_back(static_cast<std::size_t>(own_.count(classes[d])));
      std::vector<Laid*>& ready = ready_.emplace_back();
      std::vector<Laid*>& pending = pending_.emplace_back();
      for (Laid& table : laid_) {
        if (table.depth > d && table.strides[d] != 0) pending.push_back(&table);
        if (table.depth != d) continue;
        ready.push_back(&table);
        for (const std::uint16_t each : own_.map(classes[d], table.partition)) {
          table.class_offsets.push_back(each * table.v_stride);
        }
      }
    }
    if (num_kept_ < num_loops_) {
      inner_of_head_ = own_.map(heads_[num_kept_], tails_[num_kept_]);
    }
    out_of_head_ = own_.map(heads_[num_kept_], task_.out);
    common_.resize(num_loops_ > 0 ? static_cast<std::size_t>(sizes_.back()) : 0);
    row_sums_.resize(common_.size());
    rows_.resize(static_cast<std::size_t>(own_.count(task_.out)) *
                 (num_loops_ > 0 ? sizes_.back() : 1));
  }

  void advance(int d) {
    for (Laid* table : pending_[d]) table->offset += table->strides[d];
  }
  void rewind(int d) {
    for (Laid* table : pending_[d]) table->offset -= sizes_[d] * table->strides[d];
  }

  /// Adds what the loop's tables say at one of its values to the costs of its classes.
  void add_ready(int d, std::int64_t value, std::vector<double>& costs) const {
    for (const Laid* table : ready_[d]) {
      const double* from = table->costs + table->offset + value * table->strides[d];
      const std::int64_t* offsets = table->class_offsets.data();
      for (std::size_t c = 0; c < costs.size(); ++c) costs[c] += from[offsets[c]];
    }
  }

  /// `costs`: of the classes heads_[d], with all that the outer loops decide.
  void keep_loop(int d, const double* costs, double* out) {
    if (d == num_kept_) return finish(costs, out);
    if (d + 1 == num_loops_) return last_kept_loop(d, costs, out);
    std::vector<double>& next = scratch_[d];
    std::vector<double>& sums = sums_[d];
    const Classes& map = maps_[d];
    for (std::int64_t value = 0; value < sizes_[d]; ++value) {
      sums.assign(costs, costs + map.size());
      add_ready(d, value, sums);
      std::fill(next.begin(), next.end(), kForbidden);
      for (std::size_t c = 0; c < map.size(); ++c) {
        next[map[c]] = std::min(next[map[c]], sums[c]);
      }
      keep_loop(d + 1, next.data(), out + value * out_strides_[d]);
      advance(d);
    }
    rewind(d);
  }

  /// The innermost loop, over a contiguous axis of all tables that are left.
  void last_kept_loop(int d, const double* costs, double* out) {
    const std::int64_t size = sizes_[d];
    const std::int64_t num_out = own_.count(task_.out);
    double* rows = num_out == 1 ? out : rows_.data();
    if (num_out != 1) std::fill(rows_.begin(), rows_.end(), kForbidden);
    const Classes& map = maps_[d];
    sum_common(d);
    for (std::size_t c = 0; c < map.size(); ++c) {
      if (costs[c] == kForbidden) continue;
      const double cost = costs[c];
      const double* __restrict sums = row_sums(d, c);
      double* __restrict row = rows + map[c] * size;
      for (std::int64_t q = 0; q < size; ++q) {
        const double sum = cost + sums[q];
        row[q] = sum < row[q] ? sum : row[q];
      }
    }
    if (num_out == 1) return;
    for (std::int64_t q = 0; q < size; ++q) {
      for (std::int64_t o = 0; o < num_out; ++o) out[q * num_out + o] = rows[o * size + q];
    }
  }

  /// The innermost loop's tables that tell no classes of the variable apart, summed once.
  void sum_common(int d) {
    has_common_ = false;
    for (const Laid* table : ready_[d]) {
      if (table->partition != Partitions::kAlike) continue;
      add_row(table->costs + table->offset, common_, has_common_);
      has_common_ = true;
    }
  }

  /// The sum of all of the innermost loop's tables for one class.
  const double* row_sums(int d, std::size_t c) {
    const double* only = has_common_ ? common_.data() : nullptr;
    for (const Laid* table : ready_[d]) {
      if (table->partition == Partitions::kAlike) continue;
      const double* row = table->costs + table->offset + table->class_offsets[c];
      if (only == nullptr) {
        only = row;
      } else if (only == row_sums_.data()) {
        add_row(row, row_sums_, true);
      } else {
        const double* __restrict first = only;
        for (std::size_t q = 0; q < row_sums_.size(); ++q) row_sums_[q] = first[q] + row[q];
        only = row_sums_.data();
      }
    }
    return only;
  }

  static void add_row(const double* __restrict row, std::vector<double>& sums, bool is_more) {
    double* __restrict to = sums.data();
    const std::size_t size = sums.size();
    for (std::size_t q = 0; q < size; ++q) to[q] = is_more ? to[q] + row[q] : row[q];
  }

  void finish(const double* costs, double* out) {
    const double* inner = num_kept_ < num_loops_ ? minimum(num_kept_) : nullptr;
    for (std::size_t c = 0; c < out_of_head_.size(); ++c) {
      const double sum = inner == nullptr ? costs[c] : costs[c] + inner[inner_of_head_[c]];
      double& low = out[out_of_head_[c]];
      low = std::min(low, sum);
    }
  }

  /// The least over the loops from d on, for each of the classes tails_[d].
  const double* minimum(int d) {
    std::vector<double>& low = scratch_[d];
    if (d + 1 == num_loops_) {
      sum_common(d);
      for (std::size_t c = 0; c < low.size(); ++c) low[c] = least_of(row_sums(d, c), sizes_[d]);
      return low.data();
    }
    std::fill(low.begin(), low.end(), kForbidden);
    const Classes& map = maps_[d];
    std::vector<double>& sums = sums_[d];
    for (std::int64_t value = 0; value < sizes_[d]; ++value) {
      const double* inner = minimum(d + 1);
      for (std::size_t c = 0; c < low.size(); ++c) sums[c] = inner[map[c]];
      add_ready(d, value, sums);
      for (std::size_t c = 0; c < low.size(); ++c) low[c] = std::min(low[c], sums[c]);
      advance(d);
    }
    rewind(d);
    return low.data();
  }

  static double least_of(const double* row, std::int64_t size) {
    constexpr std::int64_t kLanes = 4;
    std::array<double, kLanes> lanes;
    lanes.fill(kForbidden);
    std::int64_t q = 0;
    for (; q + kLanes <= size; q += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = row[q + lane] < lanes[lane] ? row[q + lane] : lanes[lane];
      }
    }
    for (; q < size; ++q) lanes[0] = row[q] < lanes[0] ? row[q] : lanes[0];
    return std::min(std::min(lanes[0], lanes[1]), std::min(lanes[2], lanes[3]));
  }

  std::vector<Partitions>& partitions_;
  const BucketTask& task_;
  Partitions& own_;
  std::vector<Axis> loops_;
  int num_kept_ = 0, num_loops_ = 0;
  std::vector<std::int64_t> sizes_, out_strides_;
  std::vector<Laid> laid_;
  std::vector<int> heads_, tails_;
  std::vector<Classes> maps_;  ///< from the classes at a loop to those at the next
  Classes inner_of_head_, out_of_head_;
  std::vector<std::vector<Laid*>> ready_;    ///< tables that a loop completes
  std::vector<std::vector<Laid*>> pending_;  ///< tables with its axis that a later one completes
  std::vector<std::vector<double>> scratch_, sums_;  ///< of each loop
  std::vector<double> rows_, common_, row_sums_;
  bool has_common_ = false;
};

/// Puts the axis that leaves fewest classes to tell apart innermost, and so on outwards.
void order_from_inside(std::vector<Partitions>& partitions, const BucketTask& task,
                       std::vector<Axis>& axes, int& tail) {
  Partitions& own = partitions[task.v];
  for (std::size_t end = axes.size(); end > 1; --end) {
    std::size_t best = 0;
    std::pair<std::int64_t, std::int64_t> least{std::numeric_limits<std::int64_t>::max(), 0};
    for (std::size_t i = 0; i < end; ++i) {
      int joined = tail;
      for (const Factor* factor : task.factors) {
        if (has_variable(*factor, axes[i].v)) {
          joined = own.join(joined, partition_of(*factor, task.v));
        }
      }
      const std::int64_t size = partitions[axes[i].v].count(axes[i].partition);
      const std::pair<std::int64_t, std::int64_t> key{own.count(joined), -size};
      if (key < least) {
        least = key;
        best = i;
      }
    }
    for (const Factor* factor : task.factors) {
      if (has_variable(*factor, axes[best].v)) {
        tail = own.join(tail, partition_of(*factor, task.v));
      }
    }
    std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(best),
                axes.begin() + static_cast<std::ptrdiff_t>(best) + 1,
                axes.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

}  // namespace

std::vector<Axis> joined_axes(std::vector<Partitions>& partitions, int v,
                              const std::vector<const Factor*>& factors) {
  std::vector<Axis> axes;
  for (const Factor* factor : factors) {
    for (const Axis& axis : factor->axes) {
      if (axis.v == v) continue;
      const auto at = std::lower_bound(axes.begin(), axes.end(), axis,
                                       [](const Axis& x, const Axis& y) { return x.v < y.v; });
      if (at != axes.end() && at->v == axis.v) {
        at->partition = partitions[axis.v].join(at->partition, axis.partition);
      } else {
        axes.insert(at, axis);
      }
    }
  }
  return axes;
}

double order_axes(std::vector<Partitions>& partitions, BucketTask& task) {
  int tail = Partitions::kAlike;
  order_from_inside(partitions, task, task.minimised, tail);
  tail = partitions[task.v].join(tail, task.out);
  order_from_inside(partitions, task, task.kept, tail);
  double work = partitions[task.v].num_states();
  double grid = 1.0;
  std::vector<Axis> axes = task.kept;
  axes.insert(axes.end(), task.minimised.begin(), task.minimised.end());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    grid *= partitions[axes[i].v].count(axes[i].partition);
    int classes = i < task.kept.size() ? task.out : Partitions::kAlike;

    for (const Factor* factor : task.factors) {
      const bool needed =
          std::any_of(axes.begin() + static_cast<std::ptrdiff_t>(i), axes.end(),
                      [&](const Axis& axis) { return has_variable(*factor, axis.v); });
      if (!needed) continue;

      classes = partitions[task.v].join(classes, partition_of(*factor, task.v));
    }
    work += grid * partitions[task.v].count(classes);
  }
  return work;
}

std::vector<double> bucket_minimum(std::vector<Partitions>& partitions, const BucketTask& task) {
  return Bucket(partitions, task).run();
}

}  // namespace tessera::network
