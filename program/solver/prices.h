// program/solver/prices.h: what moves and work cost in one unit: µs with a topology, else bytes
// that all ranks together receive. Internal to program/solver/.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "placement/price_table.h"
#include "program/solver/call_candidates.h"
#include "program/solver/propagate_program.h"

namespace tessera {

/// Specs by number. Equal specs have one number.
class SpecNumbers {
 public:
  int of(const Spec& spec);
  const Spec& spec(int number) const { return specs_[static_cast<std::size_t>(number)]; }

 private:
  struct Hash {
    std::size_t operator()(const Spec& spec) const noexcept { return spec.hash(); }
  };
  std::deque<Spec> specs_;
  std::unordered_map<Spec, int, Hash> numbers_;
};

class Prices {
 public:
  explicit Prices(const PropagateOptions& options);

  SpecNumbers& specs() noexcept { return specs_; }
  const SpecNumbers& specs() const noexcept { return specs_; }
  /// Of a redistribution by the planner; kForbidden where there is none. Cost: one plan, once.
  double of_move(int from, int to);
  /// Of one rank's share of a call, that of the rank with most.
  double of_work(const Op& op, const Attrs& attrs, const CallCandidate& candidate) const;

  /// Ways to have a value, made as `made`, in each of several other placements: the cheapest tree.
  struct Copies {
    double cost = 0.0;
    std::vector<int> from;  ///< per copy: index of the copy that it is moved from; -1: `made`
  };
  Copies copies(int made, const std::vector<int>& wanted);

 private:
  double price(const Spec& from, const Spec& to);

  const PropagateOptions& options_;
  SpecNumbers specs_;
  PriceTable table_;
  absl::flat_hash_map<std::pair<int, int>, double> moves_;
};

}  // namespace tessera
