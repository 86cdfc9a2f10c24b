// kernels/cuda/row_groups.h: consecutive groups of rows whose sizes lie on the device. A warp finds
// a group's rows, or the group of a tile, 32 groups at a time.
#pragma once

#include <algorithm>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/lines.h"
#include "kernels/product_checks.h"

namespace tessera::kernels::TSR_CUDA {

struct Groups {
  const std::int64_t* counts;
  std::int64_t stride, num_groups, num_rows;
  FaultWord fault;
};

/// Rows of a group, inside of those given whatever the counts say.
struct GroupRows {
  std::int64_t group, begin, rows;
};

__device__ inline std::int64_t from_lane(std::int64_t value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

/// Group `first` + lane, none beyond the last. `rows_before` goes on from the groups before `first`
/// to those before the next.
__device__ inline GroupRows lane_group(const Groups& groups, std::int64_t first, int lane,
                                       std::int64_t& rows_before) {
  const std::int64_t group = first + lane;
  const std::int64_t count = group < groups.num_groups ? groups.counts[group * groups.stride] : 0;
  const std::int64_t rows = std::clamp<std::int64_t>(count, 0, groups.num_rows);
  const std::int64_t begin = std::min(rows_before + sum_so_far(rows, lane) - rows, groups.num_rows);
  const GroupRows found{group, begin, std::min(rows, groups.num_rows - begin)};
  rows_before = from_lane(found.begin + found.rows, kLanes - 1);
  return found;
}

__device__ inline void note_bad_counts(const Groups& groups, int lane) {
  std::int64_t rows_before = 0;
  for (std::int64_t first = 0; first < groups.num_groups; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    const bool is_bad =
        own.group < groups.num_groups && groups.counts[own.group * groups.stride] != own.rows;
    if (is_bad) groups.fault.note(own.group);
  }
}

__device__ inline GroupRows rows_of_group(const Groups& groups, std::int64_t group, int lane) {
  std::int64_t rows_before = 0, first = 0;
  for (;; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    if (group >= first + kLanes) continue;
    const auto holder = static_cast<int>(group - first);
    return {group, from_lane(own.begin, holder), from_lane(own.rows, holder)};
  }
}

/// The rows of tile `tile`, where each group begins a new one. Rows after the last group count as
/// another.
template <int kTileRows>
__device__ GroupRows rows_of_tile(const Groups& groups, std::int64_t tile, int lane) {
  std::int64_t rows_before = 0, tiles_before = 0;
  for (std::int64_t first = 0; first < groups.num_groups; first += kLanes) {
    const GroupRows own = lane_group(groups, first, lane, rows_before);
    const std::int64_t tiles = (own.rows + kTileRows - 1) / kTileRows;
    const std::int64_t inside = tile - tiles_before - (sum_so_far(tiles, lane) - tiles);
    const unsigned holders = __ballot_sync(kAllLanes, inside >= 0 && inside < tiles);
    if (holders != 0) {
      const int holder = __ffs(static_cast<int>(holders)) - 1;
      const std::int64_t skipped = from_lane(inside, holder) * kTileRows;
      return {first + holder, from_lane(own.begin, holder) + skipped,
              from_lane(own.rows, holder) - skipped};
    }
    tiles_before = tile - from_lane(inside - tiles, kLanes - 1);
  }
  const std::int64_t skipped = (tile - tiles_before) * kTileRows;
  return {groups.num_groups, rows_before + skipped, groups.num_rows - rows_before - skipped};
}

/// What the first warp finds, for the whole block. Block 0 notes what is wrong with the counts.
template <class Find>
__device__ GroupRows find_rows(const Groups& groups, GroupRows* shared, const Find& find) {
  if (threadIdx.x < kLanes) {
    const auto lane = static_cast<int>(threadIdx.x);
    if (blockIdx.x == 0) note_bad_counts(groups, lane);
    const GroupRows found = find(lane);
    if (lane == 0) *shared = found;
  }
  __syncthreads();
  return *shared;
}

/// Of I64 counts [E], which share `rows` rows among them; `op` names the call in what is said of
/// wrong ones.
inline Groups groups_of(KernelContext& ctx, const char* op, const Array& counts,
                        std::int64_t rows) {
  const auto describe = [op, counts, rows](std::int64_t group) {
    std::int64_t begin = 0;
    for (std::int64_t e = 0; e < group; ++e) begin += integer_at(counts, e);
    return bad_count(op, group, integer_at(counts, group), begin, rows);
  };
  return {device_data<std::int64_t>(counts), counts.strides()[0], counts.size(0), rows,
          device_of(ctx).next_fault_word(describe)};
}

}  // namespace tessera::kernels::TSR_CUDA
