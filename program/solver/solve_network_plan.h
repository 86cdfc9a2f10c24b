// program/solver/solve_network_plan.h: in which order an elimination takes variables, by the sizes
// of tables alone. Costs do not matter to it, so that one plan serves many costs.
#pragma once

#include <cstdint>
#include <vector>

#include "program/solver/solve_network_core.h"
#include "program/solver/solve_network_partition.h"

namespace tessera::network {

/// Tables that are added and minimised together. Numbers of tables: links, then messages.
struct MiniBucket {
  std::vector<int> factors;
  std::vector<Axis> axes;  ///< of the message, in its order
  int message = -1;        ///< -1: a number without axes
};

/// A variable that is eliminated. With several mini-buckets it is so several times, as if each had
/// its own copy of it: a relaxation.
struct PlannedBucket {
  int v = 0;
  std::vector<MiniBucket> minis;
};

struct EliminationPlan {
  std::vector<Partitions> partitions;      ///< one a variable
  std::vector<std::vector<Axis>> factors;  ///< axes of each table
  std::vector<PlannedBucket> buckets;      ///< in order, one a variable
  bool is_exact = true;                    ///< one mini-bucket each
  double work = 0.0;                       ///< additions
  double entries = 0.0;                    ///< of all messages
};

/// No message has more entries than max_table; where that cannot be, variables have several
/// mini-buckets. Cost: about variables times neighbours squared times states.
EliminationPlan plan_elimination(const Core& core, std::int64_t max_table);

/// Variables without which an exact elimination keeps to max_table: few of them, others for each
/// seed.
std::vector<int> find_cutset(const Core& core, std::int64_t max_table, std::uint64_t seed);

}  // namespace tessera::network
