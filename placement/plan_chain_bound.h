// placement/plan_chain_bound.h: what any chain of one-axis collectives from a layout to the target
// takes at least. Internal to the planner.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "placement/plan_cuts.h"
#include "placement/plan_links.h"
#include "placement/spec.h"

namespace tessera {

/// Dims that chains cut at most: those that are cut anyway, then the longest.
inline constexpr std::size_t kMostChainDims = 12;

/// A layout: the list of axes that cuts each dim looked at, and the axes that are Partial.
struct ChainState {
  std::array<std::uint16_t, kMostChainDims> cuts{};
  std::uint64_t partial = 0;
  bool operator==(const ChainState&) const = default;
};
static_assert(sizeof(ChainState) == 4 * sizeof(std::uint64_t));
struct ChainStateHash {
  std::size_t operator()(const ChainState& state) const noexcept {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), &state, sizeof(state));
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) {
      hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
      hash ^= hash >> 32;
    }
    return static_cast<std::size_t>(hash);
  }
};

inline std::uint64_t bit_of(int axis) { return std::uint64_t{1} << axis; }

class ChainBound {
 public:
  /// `links` of each axis, `trees` of each dim looked at, with the target set. All stay where they
  /// are.
  ChainBound(const Spec& dst, const std::vector<LinkShares>& links,
             const std::vector<DimCuts>& trees, const ChainState& target);

  /// The axes that cut some dim, as bits.
  std::uint64_t cutting(const ChainState& at) const;
  /// In µs, from a layout that `cutting` axes cut.
  double least_us(const ChainState& at, std::uint64_t cutting);

 private:
  /// What leaving a list for the target's takes at least, and what some rank lacks.
  struct Least {
    double us = 0;
    std::int64_t far = 0;  ///< length of the target's piece of a rank that holds nothing of it
    bool known = false;
  };

  const DimCut& cut(const ChainState& state, std::size_t i) const {
    return trees_[i][state.cuts[i]];
  }
  const LinkShares& links(int axis) const { return links_[static_cast<std::size_t>(axis)]; }
  std::int64_t target_parts() const;
  double beyond_best_us(std::uint64_t gathered, std::uint64_t reduced) const;
  const Least& least_of(std::size_t i, int node);
  std::int64_t least_messages(std::size_t i, const DimCut& cut) const;

  const Mesh& mesh_;
  const std::vector<LinkShares>& links_;
  const std::vector<DimCuts>& trees_;
  ChainState target_;
  std::uint64_t target_cutting_ = 0;
  double us_per_byte_;  ///< of the best axis
  double element_bytes_ = 1, elements_of_rank_ = 1;
  std::vector<double> beyond_best_us_;     ///< of each axis, alone
  std::vector<int> slowest_first_;         ///< axes
  std::vector<std::vector<Least>> least_;  ///< of each dim, of each list
};

}  // namespace tessera
