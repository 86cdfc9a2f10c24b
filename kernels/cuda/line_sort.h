// kernels/cuda/line_sort.h: entries sorted on the device. A block sorts a tile; runs of more are
// merged in pairs.
#pragma once

#include "kernels/cuda/line_entries.h"

namespace tessera::kernels::TSR_CUDA {

#ifdef __CUDACC__
inline constexpr int kSortThreads = 256, kSortEach = 8;
#else
inline constexpr int kSortThreads = 32, kSortEach = 4;
#endif
inline constexpr int kSortTile = kSortThreads * kSortEach;

/// Entries that follow each other in order.
template <class Entry>
struct Run {
  const Entry* entries;
  std::int64_t size;
};

/// How many of the first `count` entries of both runs come from a.
template <class Entry>
__device__ std::int64_t merge_split(const Run<Entry>& a, const Run<Entry>& b, std::int64_t count) {
  std::int64_t low = count > b.size ? count - b.size : 0;
  std::int64_t high = count < a.size ? count : a.size;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (a.entries[middle].before(b.entries[count - 1 - middle])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The kSortEach entries of both runs that follow the first `count`, where there are so many.
template <class Entry>
__device__ void merge_some(const Run<Entry>& a, const Run<Entry>& b, std::int64_t count,
                           Entry* to) {
  std::int64_t in_a = merge_split(a, b, count);
  std::int64_t in_b = count - in_a;
  for (int j = 0; j < kSortEach; ++j) {
    const bool has_a = in_a < a.size, has_b = in_b < b.size;
    if (!has_a && !has_b) return;
    const bool takes_a = has_a && (!has_b || a.entries[in_a].before(b.entries[in_b]));
    to[j] = takes_a ? a.entries[in_a++] : b.entries[in_b++];
  }
}

/// Sorts each `segment` entries, a power of two from kSortEach on, of the block's kSortTile; all
/// its threads call.
template <class Entry>
__device__ void sort_tile(Entry* tile, int segment) {
  const int first = static_cast<int>(threadIdx.x) * kSortEach;
  Entry mine[kSortEach];
  for (int j = 0; j < kSortEach; ++j) mine[j] = tile[first + j];
  for (int round = 0; round < kSortEach; ++round) {
    for (int j = round % 2; j + 1 < kSortEach; j += 2) {
      const Entry a = mine[j], b = mine[j + 1];
      const bool swaps = b.before(a);
      mine[j] = swaps ? b : a;
      mine[j + 1] = swaps ? a : b;
    }
  }
  for (int j = 0; j < kSortEach; ++j) tile[first + j] = mine[j];
  for (int width = kSortEach; width < segment; width *= 2) {
    __syncthreads();
    const int pair = first / (2 * width) * (2 * width);
    merge_some<Entry>({tile + pair, width}, {tile + pair + width, width}, first - pair, mine);
    __syncthreads();
    for (int j = 0; j < kSortEach; ++j) tile[first + j] = mine[j];
  }
  __syncthreads();
}

/// The first `wanted` entries of lines of n, as runs that cover `span` elements each and keep up to
/// `pitch` of them, run after run, line after line.
struct LineRuns {
  std::int64_t lines, n, wanted;
  std::int64_t span, count, pitch;
  std::int64_t line_entries;

  LineRuns(std::int64_t of_lines, std::int64_t of_n, std::int64_t of_wanted, std::int64_t of_span)
      : lines(of_lines),
        n(of_n),
        wanted(of_wanted),
        span(of_span),
        count((of_n + of_span - 1) / of_span),
        pitch(std::min(of_wanted, of_span)),
        line_entries((count - 1) * pitch + std::min(pitch, of_n - (count - 1) * of_span)) {}
  LineRuns merged() const { return {lines, n, wanted, 2 * span}; }

  __device__ std::int64_t place(std::int64_t line, std::int64_t number) const {
    return line * line_entries + number * pitch;
  }
  __device__ std::int64_t size_of_run(std::int64_t number) const {
    const std::int64_t covered = n - number * span;
    return covered <= 0 ? 0 : covered < pitch ? covered : pitch;
  }
  template <class Entry>
  __device__ Run<Entry> run(const Entry* entries, std::int64_t line, std::int64_t number) const {
    return {entries + place(line, number), size_of_run(number)};
  }
};

/// What the runs of `from` give, kSortTile entries of a merged run a block at a time.
template <class Entry>
__global__ void merge_runs(const Entry* entries, LineRuns from, LineRuns to, Entry* merged) {
  TSR_SHARED(Entry, tile, [kSortTile]);
  TSR_SHARED(std::int64_t, splits, [2]);
  const std::int64_t pieces = (to.pitch + kSortTile - 1) / kSortTile;
  for (std::int64_t item = blockIdx.x; item < to.lines * to.count * pieces; item += gridDim.x) {
    const std::int64_t run = item / pieces % to.count, line = item / pieces / to.count;
    const Run<Entry> a = from.run(entries, line, 2 * run), b = from.run(entries, line, 2 * run + 1);
    const std::int64_t begin = item % pieces * kSortTile, size = to.size_of_run(run);
    if (begin >= size) continue;
    const std::int64_t end = begin + kSortTile < size ? begin + kSortTile : size;
    if (threadIdx.x < 2) splits[threadIdx.x] = merge_split(a, b, threadIdx.x == 0 ? begin : end);
    __syncthreads();
    const std::int64_t of_a = splits[1] - splits[0], count = end - begin;
    for (std::int64_t t = threadIdx.x; t < count; t += kSortThreads) {
      tile[t] = t < of_a ? a.entries[splits[0] + t] : b.entries[begin - splits[0] + t - of_a];
    }
    __syncthreads();
    const std::int64_t first = threadIdx.x * kSortEach;
    Entry mine[kSortEach];
    if (first < count) {
      merge_some<Entry>({&tile[0], of_a}, {&tile[0] + of_a, count - of_a}, first, mine);
    }
    __syncthreads();
    for (std::int64_t j = 0; j < kSortEach && first + j < count; ++j) tile[first + j] = mine[j];
    __syncthreads();
    Entry* const target = merged + to.place(line, run) + begin;
    for (std::int64_t t = threadIdx.x; t < count; t += kSortThreads) target[t] = tile[t];
    __syncthreads();
  }
}

/// Blocks for so many tiles.
inline Grid sort_grid(std::int64_t tiles) {
  Grid grid = grid_for(tiles * kSortThreads);
  grid.threads = static_cast<unsigned>(kSortThreads);
  return grid;
}

}  // namespace tessera::kernels::TSR_CUDA
