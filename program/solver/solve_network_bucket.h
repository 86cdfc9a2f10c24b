// program/solver/solve_network_bucket.h: one step of an elimination: tables that share a variable
// are added and minimised over its states.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/solver/solve_network_partition.h"

namespace tessera::network {

/// A table of costs over its axes, the last one contiguous. Does not own the costs.
struct Factor {
  std::vector<Axis> axes;
  const double* costs = nullptr;
};

/// Of the sum of a variable's costs and of some tables, the least over its states and over some
/// axes of other variables. Axes are as fine as all tables need: see joined_axes().
struct BucketTask {
  int v = 0;
  std::span<const double> unary;  ///< one a state of v
  std::vector<const Factor*> factors;
  std::vector<Axis> kept;        ///< axes of the result
  std::vector<Axis> minimised;   ///< other axes
  int out = Partitions::kAlike;  ///< classes of v that the result tells apart, as its last axis
};

/// Axes of all variables but v, sorted by variable, as fine as all of the factors tell apart.
std::vector<Axis> joined_axes(std::vector<Partitions>& partitions, int v,
                              const std::vector<const Factor*>& factors);

/// Orders the kept and the minimised axes each for least work, which it returns: additions.
double order_axes(std::vector<Partitions>& partitions, BucketTask& task);

/// Result: [kept..., classes of out].
std::vector<double> bucket_minimum(std::vector<Partitions>& partitions, const BucketTask& task);

}  // namespace tessera::network
