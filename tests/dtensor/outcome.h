// tests/dtensor/outcome.h: what a distributed computation left on one rank, as whole tensors to
// compare with one rank's. A gradient is listed as "grad.NAME".
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/ranks.h"

namespace tessera::testing {

using Outcome = std::map<std::string, Array>;
using Named = std::vector<std::pair<std::string, DTensor>>;

/// Full tensors of the results, and of the leaves' gradients.
inline Outcome outcome_of(const Named& results, const Named& leaves) {
  Outcome outcome;
  for (const auto& [name, tensor] : results) outcome[name] = copy_of(full_tensor(tensor));
  for (const auto& [name, leaf] : leaves) {
    if (!leaf.grad().defined()) throw Error(internal_error("no gradient of " + name));
    outcome["grad." + name] = copy_of(full_tensor(leaf.grad()));
  }
  return outcome;
}

/// The largest difference of any entry on any rank; infinite where names or shapes differ.
inline double worst_difference(const std::vector<Outcome>& ranks, const Outcome& expected) {
  double worst = 0.0;
  for (const Outcome& outcome : ranks) {
    if (outcome.size() != expected.size()) return std::numeric_limits<double>::infinity();
    for (const auto& [name, array] : expected) {
      const auto found = outcome.find(name);
      if (found == outcome.end()) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, max_difference(found->second, array));
    }
  }
  return worst;
}

inline bool same_bits(const std::vector<Outcome>& a, const std::vector<Outcome>& b) {
  const auto same = [](const Outcome& x, const Outcome& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto& p, const auto& q) {
      return p.first == q.first && same_bits(p.second, q.second);
    });
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace tessera::testing
