// kernels/host/select_lanes.h: the largest few of many short lines at once, one line in each lane
// of a vector. Composites of select_keys.h differ, so a maximum and a minimum put each where it
// belongs, without a branch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/host/simd.h"
#include "kernels/select_keys.h"

namespace tessera::kernels {

/// Lines that are selected from together.
inline constexpr std::int64_t kLineGroup = kLanes<std::uint32_t>;
/// Whether the instruction set has such vectors: made of shorter ones, they cost more than they
/// save.
#ifdef __AVX512F__
inline constexpr bool kSelectsInLanes = true;
#else
inline constexpr bool kSelectsInLanes = false;
#endif
/// Up to this many of a line its best ones stay in registers.
inline constexpr std::int64_t kMostInLanes = 8;

namespace lanes {

/// ordered_key() of every lane.
[[gnu::always_inline]] inline Vec<std::uint32_t> ordered_keys(const Vec<float>& values) {
  const Vec<float> number = values + 0.0F;  // −0.0 + 0.0 is +0.0
  const auto words = reinterpret_cast<Vec<std::uint32_t>>(number);
  const auto signs =
      reinterpret_cast<Vec<std::uint32_t>>(reinterpret_cast<Vec<std::int32_t>>(number) >> 31);
  const auto nans = reinterpret_cast<Vec<std::uint32_t>>(values != values);
  return (words ^ (signs | 0x80000000U)) | nans;
}

template <int kStep, std::size_t... kLane>
[[gnu::always_inline]] inline void exchange(Vec<std::uint32_t>& a, Vec<std::uint32_t>& b,
                                            std::index_sequence<kLane...>) {
  // Lanes without the bit of kStep stay in a, those with it stay in b; the others change places.
  const Vec<std::uint32_t> first = __builtin_shufflevector(
      a, b, static_cast<int>((kLane & kStep) == 0 ? kLane : kLane + kLineGroup - kStep)...);
  b = __builtin_shufflevector(
      a, b, static_cast<int>((kLane & kStep) == 0 ? kLane + kStep : kLane + kLineGroup)...);
  a = first;
}
template <int kStep>
[[gnu::always_inline]] inline void exchange_all(Vec<std::uint32_t> (&tile)[kLineGroup]) {
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kLineGroup; ++i) {
    if ((i & kStep) != 0) continue;
    exchange<kStep>(tile[i], tile[i + kStep], std::make_index_sequence<kLineGroup>());
  }
}
/// Row i, lane j becomes row j, lane i. One copy for all element types.
[[gnu::noinline]] inline void transpose(Vec<std::uint32_t>* rows) {
  Vec<std::uint32_t> tile[kLineGroup];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kLineGroup; ++i) tile[i] = rows[i];
  exchange_all<1>(tile);
  exchange_all<2>(tile);
  exchange_all<4>(tile);
  exchange_all<8>(tile);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < kLineGroup; ++i) rows[i] = tile[i];
}

/// Keys of half the lanes as composites, neighbours within four lanes, which one instruction
/// interleaves with the position: see place_of_line().
template <std::size_t kHalf, std::size_t... kLane>
[[gnu::always_inline]] inline Vec<std::uint64_t> composites(const Vec<std::uint32_t>& positions,
                                                            const Vec<std::uint32_t>& keys,
                                                            std::index_sequence<kLane...>) {
  const Vec<std::uint32_t> words = __builtin_shufflevector(
      positions, keys,
      static_cast<int>(kLane / 4 * 4 + kHalf * 2 + kLane % 4 / 2 + kLane % 2 * kLineGroup)...);
  return reinterpret_cast<Vec<std::uint64_t>>(words);
}
/// The kMost largest composites of kLanes<uint64> lines, largest first.
template <int kMost>
class Best {
 public:
  [[gnu::always_inline]] void insert(Vec<std::uint64_t> composite) {
#pragma GCC unroll 8
    for (int rank = 0; rank < kMost; ++rank) {
      const Vec<std::uint64_t> held = best_[rank];
      best_[rank] = held > composite ? held : composite;
      composite = held > composite ? composite : held;
    }
  }
  Vec<std::uint64_t> at(int rank) const { return best_[rank]; }

 private:
  Vec<std::uint64_t> best_[kMost] = {};
};

}  // namespace lanes

/// Composites of a group's lines: the largest of line l at rank r in best[r][place_of_line(l)].
using LineRanks = std::uint64_t[kMostInLanes][kLineGroup];
constexpr std::int64_t place_of_line(std::int64_t line) {
  return line % 4 / 2 * (kLineGroup / 2) + line / 4 * 2 + line % 2;
}

/// The kMost largest of n >= kMost composites of each line, largest first. keys[i + l], i a
/// multiple of kLineGroup: rank keys of line l from element i on; overwritten.
template <int kMost>
[[gnu::noinline]] void select_in_lanes(std::int64_t n, Vec<std::uint32_t>* keys, LineRanks& best) {
  constexpr auto kWords = std::make_index_sequence<kLineGroup>();
  lanes::Best<kMost> low, high;
  for (std::int64_t first = 0; first < n; first += kLineGroup) {
    const std::int64_t count = std::min(kLineGroup, n - first);
    Vec<std::uint32_t>* tile = keys + first;
    lanes::transpose(tile);
    for (std::int64_t i = 0; i < count; ++i) {
      const Vec<std::uint32_t> positions =
          Vec<std::uint32_t>{} +
          static_cast<std::uint32_t>(composite(0, static_cast<std::uint32_t>(first + i)));
      low.insert(lanes::composites<0>(positions, tile[i], kWords));
      high.insert(lanes::composites<1>(positions, tile[i], kWords));
    }
  }
  for (int rank = 0; rank < kMost; ++rank) {
    store_vec(best[rank], low.at(rank));
    store_vec(best[rank] + kLineGroup / 2, high.at(rank));
  }
}

}  // namespace tessera::kernels
