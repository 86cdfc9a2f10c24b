#include "program/solver/solve_network_partition.h"

#include <numeric>

namespace tessera::network {

Partitions::Partitions(int num_states) : num_states_(num_states) {
  add(Classes(static_cast<std::size_t>(num_states), 0), 1);
}

int Partitions::add(const Classes& classes, int count) {
  const auto [found, is_new] = numbers_.try_emplace(classes, static_cast<int>(counts_.size()));
  if (is_new) {
    classes_.push_back(classes);
    counts_.push_back(count);
  }
  return found->second;
}

int Partitions::all_apart() {
  Classes classes(static_cast<std::size_t>(num_states_));
  std::iota(classes.begin(), classes.end(), std::uint16_t{0});
  return add(classes, num_states_);
}

int Partitions::join(int first, int second) {
  if (first == second || second == kAlike) return first;
  if (first == kAlike) return second;
  if (first > second) std::swap(first, second);
  if (const auto known = joins_.find({first, second}); known != joins_.end()) return known->second;
  constexpr std::uint16_t kNone = 0xffff;
  const int columns = counts_[second];
  Classes numbers(static_cast<std::size_t>(counts_[first]) * columns, kNone), classes;
  int count = 0;
  for (int s = 0; s < num_states_; ++s) {
    std::uint16_t& number =
        numbers[static_cast<std::size_t>(classes_[first][s]) * columns + classes_[second][s]];
    if (number == kNone) number = static_cast<std::uint16_t>(count++);
    classes.push_back(number);
  }
  // One that is no finer than a part is that part.
  const int joined = count == counts_[first]    ? first
                     : count == counts_[second] ? second
                                                : add(classes, count);
  joins_[{first, second}] = joined;
  return joined;
}

Classes Partitions::map(int fine, int coarse) const {
  Classes result(static_cast<std::size_t>(counts_[fine]));
  for (int s = 0; s < num_states_; ++s) result[classes_[fine][s]] = classes_[coarse][s];
  return result;
}

}  // namespace tessera::network
