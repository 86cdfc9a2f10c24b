// tests/redistribute/held.h: who holds what under a spec, as lists of elements, and what the ranks'
// parts amount to. Written from the definition of a layout alone (tests/placement/brute.h).
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "placement/spec.h"
#include "tests/placement/brute.h"

namespace tessera::judge {

using brute::Indices;
using Local = std::vector<double>;  ///< one rank's array, row-major

inline constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();

/// What one rank holds: indices of each dim, and row-major global indices of all elements.
struct Holding {
  Coord coord;
  std::vector<Indices> dims;
  Indices elements;

  std::int64_t size() const { return static_cast<std::int64_t>(elements.size()); }
};

/// What every rank of a spec holds.
class Held {
 public:
  explicit Held(const Spec& spec) : spec_(spec) {
    for (const Coord& coord : brute::coords_of(spec.mesh())) {
      Holding holding{coord, {}, {0}};
      for (std::size_t d = 0; d < spec.global_shape().size(); ++d) {
        const std::int64_t size = spec.global_shape()[d];
        holding.dims.push_back(brute::indices_of(spec.mesh(), size, spec.layout().dims[d], coord));
        Indices longer;
        for (const std::int64_t outer : holding.elements) {
          for (const std::int64_t index : holding.dims.back()) {
            longer.push_back(outer * size + index);
          }
        }
        holding.elements = std::move(longer);
      }
      by_rank_.emplace(spec.mesh().rank_of(coord), std::move(holding));
    }
  }

  const Spec& spec() const { return spec_; }
  const std::map<std::int64_t, Holding>& by_rank() const { return by_rank_; }
  /// Null for a rank outside of the mesh.
  const Holding* on(std::int64_t rank) const {
    const auto found = by_rank_.find(rank);
    return found == by_rank_.end() ? nullptr : &found->second;
  }
  std::int64_t size_on(std::int64_t rank) const {
    const Holding* holding = on(rank);
    return holding == nullptr ? 0 : holding->size();
  }

 private:
  Spec spec_;
  std::map<std::int64_t, Holding> by_rank_;
};

/// Held of specs met before.
class HeldCache {
 public:
  std::shared_ptr<const Held> of(const Spec& spec) {
    if (known_.size() > kMost) known_.clear();
    std::shared_ptr<const Held>& held = known_[spec];
    if (held == nullptr) held = std::make_shared<const Held>(spec);
    return held;
  }

 private:
  struct Hash {
    std::size_t operator()(const Spec& spec) const { return spec.hash(); }
  };
  static constexpr std::size_t kMost = 4096;
  std::unordered_map<Spec, std::shared_ptr<const Held>, Hash> known_;
};

/// |needs \ has| in elements: both sets are products over dims.
inline std::int64_t lacks(const Holding* has, const Holding* needs) {
  if (needs == nullptr) return 0;
  if (has == nullptr) return needs->size();
  std::int64_t shared = 1;
  for (std::size_t d = 0; d < needs->dims.size(); ++d) {
    Indices both;
    std::set_intersection(has->dims[d].begin(), has->dims[d].end(), needs->dims[d].begin(),
                          needs->dims[d].end(), std::back_inserter(both));
    shared *= static_cast<std::int64_t>(both.size());
  }
  return needs->size() - shared;
}

inline double fold_two(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kProd:
      return a * b;
    default:
      return a + b;
  }
}
inline double identity_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::kMax:
      return -std::numeric_limits<double>::infinity();
    case ReduceOp::kMin:
      return std::numeric_limits<double>::infinity();
    case ReduceOp::kProd:
      return 1.0;
    default:
      return -0.0;
  }
}

/// The axes along which ranks hold summands.
struct Summands {
  explicit Summands(const Spec& spec) {
    for (int a = 0; a < spec.mesh().ndim(); ++a) {
      if (const auto& op = spec.layout().partial[static_cast<std::size_t>(a)]) {
        axes.push_back(static_cast<std::size_t>(a));
        sizes.push_back(spec.mesh().size(a));
        ops.push_back(*op);
        count *= static_cast<std::size_t>(sizes.back());
        if (*op == ReduceOp::kAvg) divisor *= sizes.back();
      }
    }
  }
  /// Row-major place of a coord among the summands.
  std::size_t place_of(const Coord& coord) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      place = place * static_cast<std::size_t>(sizes[i]) + static_cast<std::size_t>(coord[axes[i]]);
    }
    return place;
  }
  /// One element from its summands: from the last axis to the first.
  double reduce(Local values) const {
    for (std::size_t i = axes.size(); i-- > 0;) {
      const auto size = static_cast<std::size_t>(sizes[i]);
      for (std::size_t outer = 0; outer * size < values.size(); ++outer) {
        double result = values[outer * size];
        for (std::size_t c = 1; c < size; ++c) {
          result = fold_two(ops[i], result, values[outer * size + c]);
        }
        if (ops[i] == ReduceOp::kAvg) result /= static_cast<double>(size);
        values[outer] = result;
      }
      values.resize(values.size() / size);
    }
    return values[0];
  }

  std::vector<std::size_t> axes;
  std::vector<std::int64_t> sizes;
  std::vector<ReduceOp> ops;
  std::size_t count = 1;     ///< summands of an element
  std::int64_t divisor = 1;  ///< of all averages
};

/// Arrays by rank. Without Partial element i is i + 1, and −0.0 the first: moved bits are told
/// apart. Summands are integers that averages divide.
inline std::map<std::int64_t, Local> made_parts(const Held& held, std::uint32_t seed) {
  const Summands summands(held.spec());
  std::map<std::int64_t, Local> parts;
  for (const auto& [rank, holding] : held.by_rank()) {
    Local& local = parts[rank];
    const auto place = static_cast<std::uint32_t>(summands.place_of(holding.coord));
    for (const std::int64_t element : holding.elements) {
      const auto e = static_cast<std::uint32_t>(element);
      if (summands.count == 1) {
        local.push_back(element == 0 ? -0.0 : static_cast<double>(element + 1));
      } else {
        const std::uint32_t mixed = (e * 2654435761U + place * 40503U + seed) * 2246822519U;
        const double small = static_cast<double>((mixed >> 16) % 4) - 1;
        local.push_back((small <= 0 ? small - 1 : small) * static_cast<double>(summands.divisor));
      }
    }
  }
  return parts;
}

/// The logical tensor of the ranks' parts.
struct Whole {
  Local values;      ///< by element
  std::string flaw;  ///< replicas that differ, sizes that are wrong, elements that nobody holds
};
inline Whole whole_of(const Held& held, const std::map<std::int64_t, Local>& parts) {
  const Summands summands(held.spec());
  const auto count = static_cast<std::size_t>(num_elements(held.spec().global_shape()));
  Whole whole{Local(count, kNothing), ""};
  std::vector<Local> table(count, Local(summands.count, kNothing));
  std::vector<char> seen(count * summands.count, 0);
  for (const auto& [rank, holding] : held.by_rank()) {
    const auto part = parts.find(rank);
    if (part == parts.end() || part->second.size() != holding.elements.size()) {
      whole.flaw = "rank " + std::to_string(rank) + " has an array of another size";
      return whole;
    }
    const std::size_t place = summands.place_of(holding.coord);
    for (std::size_t i = 0; i < holding.elements.size(); ++i) {
      const auto element = static_cast<std::size_t>(holding.elements[i]);
      const double value = part->second[i];
      char& known = seen[element * summands.count + place];
      double& at = table[element][place];
      if (known != 0 && std::bit_cast<std::uint64_t>(at) != std::bit_cast<std::uint64_t>(value)) {
        whole.flaw = "rank " + std::to_string(rank) + " holds " + std::to_string(value) +
                     " as element " + std::to_string(element) + ", another " + std::to_string(at);
      }
      at = value;
      known = 1;
    }
  }
  if (std::count(seen.begin(), seen.end(), 0) > 0) whole.flaw = "an element has no holder";
  for (std::size_t e = 0; e < count; ++e) whole.values[e] = summands.reduce(std::move(table[e]));
  return whole;
}

}  // namespace tessera::judge
