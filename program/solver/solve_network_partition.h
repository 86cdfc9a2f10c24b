// program/solver/solve_network_partition.h: which states of a variable a table tells apart. An axis
// of a table is a variable with a partition of its states into classes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tessera::network {

/// The class of each state.
using Classes = std::vector<std::uint16_t>;

/// The partitions of one variable's states that occur, by number: equal ones have one number.
class Partitions {
 public:
  /// All states alike: one class.
  static constexpr int kAlike = 0;

  explicit Partitions(int num_states);
  int num_states() const { return num_states_; }
  int add(const Classes& classes, int count);
  /// Each state a class of its own.
  int all_apart();
  /// The coarsest that tells apart what either does.
  int join(int first, int second);
  int count(int partition) const { return counts_[partition]; }
  const Classes& classes(int partition) const { return classes_[partition]; }
  /// The class of `coarse` that holds each class of `fine`, which tells apart all that it does.
  Classes map(int fine, int coarse) const;

 private:
  int num_states_;
  absl::flat_hash_map<Classes, int> numbers_;
  std::vector<Classes> classes_;
  std::vector<int> counts_;
  absl::flat_hash_map<std::pair<int, int>, int> joins_;
};

struct Axis {
  int v = 0, partition = 0;
  bool operator==(const Axis&) const = default;
};

}  // namespace tessera::network
