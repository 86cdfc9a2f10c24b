// kernels/cuda/line_entries.h: entries, an element's key with its position in its line, as device
// code compares them. No two entries of a line are equal, so that every order of them is stable.
#pragma once

#include "kernels/cuda/lines.h"
#include "kernels/select_keys.h"

namespace tessera::kernels::TSR_CUDA {

/// A key of 32 bits in one word, as select_keys.h has it. Zero stands behind all that are real.
struct NarrowEntry {
  std::uint64_t word;

  static __device__ NarrowEntry of(std::uint32_t key, std::int64_t index) {
    return {composite(key, static_cast<std::uint32_t>(index))};
  }
  __device__ std::int64_t index() const { return index_of(word); }
  __device__ bool before(const NarrowEntry& other) const { return word > other.word; }
  __device__ NarrowEntry of_lane_across(int step) const {
    return {__shfl_xor_sync(kAllLanes, word, step)};
  }
};
struct alignas(16) WideEntry {
  std::uint64_t key, position;  // the position inverted

  static __device__ WideEntry of(std::uint64_t key, std::int64_t index) {
    return {key, ~static_cast<std::uint64_t>(index)};
  }
  __device__ std::int64_t index() const { return static_cast<std::int64_t>(~position); }
  __device__ bool before(const WideEntry& other) const {
    return key != other.key ? key > other.key : position > other.position;
  }
  __device__ WideEntry of_lane_across(int step) const {
    return {__shfl_xor_sync(kAllLanes, key, step), __shfl_xor_sync(kAllLanes, position, step)};
  }
};
/// Of values that are compared as C.
template <class C>
using EntryOf = std::conditional_t<kNarrowKey<C>, NarrowEntry, WideEntry>;

/// Of a warp, or of each `lanes` neighbours in it, as warp_max() has it.
template <class Entry>
__device__ Entry first_of_warp(Entry entry, int lanes = kLanes) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    const Entry other = entry.of_lane_across(step);
    if (other.before(entry)) entry = other;
  }
  return entry;
}

}  // namespace tessera::kernels::TSR_CUDA
