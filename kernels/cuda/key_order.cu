// A stable radix sort: in each pass a warp counts the digits of its tile, the counts are summed
// over the tiles, and the warp then places its tile's entries in order.
#include <algorithm>
#include <bit>

#include "kernels/cuda/key_order.h"
#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

constexpr int kDigitBits = 8;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kMostWarps = 8;  // of a block

struct Pass {
  const std::int32_t* keys;
  const std::int32_t* positions;  // null: the entries' own numbers
  std::int64_t count;
  Tiles tiles;
  int shift, bits;  // of the digit
  __device__ unsigned digit_of(std::int64_t i) const {
    return static_cast<unsigned>(keys[i]) >> shift & ((1U << bits) - 1);
  }
};

/// f(tile, counters of this warp) for each tile that falls to this warp.
template <class F>
__device__ void for_each_tile(const Pass& pass, F&& f) {
  TSR_SHARED(int, counters, [kMostWarps][kDigits]);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (std::int64_t tile = first; tile < pass.tiles.count; tile += warps) {
    f(tile, counters[threadIdx.x / kLanes]);
  }
}

/// Entries of a tile, 32 at a time: f(i, digit, next of that digit) for those that there are, where
/// `next` counts them from counters[digit] on, in order. Leaves the counters behind the tile.
template <class F>
__device__ void number_entries(const Pass& pass, std::int64_t tile, int* counters, F&& f) {
  const unsigned lane = threadIdx.x % kLanes;
  const std::int64_t begin = tile * pass.tiles.entries;
  const std::int64_t most = begin + pass.tiles.entries;
  const std::int64_t end = most < pass.count ? most : pass.count;
  for (std::int64_t base = begin; base < end; base += kLanes) {
    const std::int64_t i = base + lane;
    const bool is_there = i < end;
    const unsigned digit = is_there ? pass.digit_of(i) : 0;
    unsigned same = __ballot_sync(kAllLanes, is_there);
    for (int bit = 0; bit < pass.bits; ++bit) {
      const bool is_set = (digit >> bit & 1) != 0;
      const unsigned having = __ballot_sync(kAllLanes, is_set);
      same &= is_set ? having : ~having;
    }
    const unsigned before = same & ((1U << lane) - 1);
    const int next = counters[digit];
    __syncwarp();
    if (is_there) {
      if (before == 0) counters[digit] = next + __popc(same);
      f(i, digit, next + __popc(before));
    }
    __syncwarp();
  }
}

__global__ void count_digits(Pass pass, std::int32_t* counts) {
  for_each_tile(pass, [&](std::int64_t tile, int* counters) {
    const int lane = threadIdx.x % kLanes;
    for (int d = lane; d < 1 << pass.bits; d += kLanes) counters[d] = 0;
    __syncwarp();
    number_entries(pass, tile, counters, [](std::int64_t, unsigned, int) {});
    for (int d = lane; d < 1 << pass.bits; d += kLanes) {
      counts[d * pass.tiles.count + tile] = counters[d];
    }
    __syncwarp();
  });
}

/// The sum of the lanes before this one; `total` of all.
__device__ int sum_before(int value, int lane, int& total) {
  int sum = value;
  for (int step = 1; step < kLanes; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, static_cast<unsigned>(step));
    if (lane >= step) sum += other;
  }
  total = __shfl_sync(kAllLanes, sum, kLanes - 1);
  return sum - value;
}

/// A warp a row.
__global__ void scan_counts(std::int32_t* counts, std::int64_t rows, std::int64_t columns,
                            std::int32_t* totals) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; row < rows; row += warps) {
    int sum = 0;
    for (std::int64_t base = 0; base < columns; base += kLanes) {
      const bool is_there = base + lane < columns;
      std::int32_t* at = counts + row * columns + base + lane;
      int total = 0;
      const int before = sum_before(is_there ? *at : 0, lane, total);
      if (is_there) *at = sum + before;
      sum += total;
    }
    if (lane == 0) totals[row] = sum;
  }
}

__global__ void place_entries(Pass pass, const std::int32_t* counts, const std::int32_t* totals,
                              std::int32_t* keys, std::int32_t* positions) {
  for_each_tile(pass, [&](std::int64_t tile, int* counters) {
    const int lane = threadIdx.x % kLanes;
    int smaller = 0;  // entries of smaller digits, of all tiles
    for (int base = 0; base < 1 << pass.bits; base += kLanes) {
      const int d = base + lane;
      const bool is_there = d < 1 << pass.bits;
      int total = 0;
      const int before = sum_before(is_there ? totals[d] : 0, lane, total);
      if (is_there) counters[d] = smaller + before + counts[d * pass.tiles.count + tile];
      smaller += total;
    }
    __syncwarp();
    number_entries(pass, tile, counters, [&](std::int64_t i, unsigned, int to) {
      keys[to] = pass.keys[i];
      positions[to] = pass.positions == nullptr ? static_cast<std::int32_t>(i) : pass.positions[i];
    });
  });
}

__global__ void find_offsets(const std::int32_t* keys, std::int64_t count, std::int64_t num_keys,
                             std::int32_t* offsets) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t key = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; key <= num_keys; key += step) {
    std::int64_t low = 0, high = count;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (keys[middle] < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    offsets[key] = static_cast<std::int32_t>(low);
  }
}

}  // namespace

Tiles tiles_of(std::int64_t entries) {
  constexpr std::int64_t kLeastEntries = 256, kMostTiles = 4096;
  const std::int64_t even = (entries + kMostTiles - 1) / kMostTiles;
  const std::int64_t each = std::max(kLeastEntries, (even + kLanes - 1) / kLanes * kLanes);
  return {.entries = each, .count = (entries + each - 1) / each};
}

void scan_rows(KernelContext& ctx, const Array& counts_RC, const Array& totals_R) {
  const Current current(*ctx.device);
  const std::int64_t rows = counts_RC.size(0), columns = counts_RC.size(1);
  check(launch<scan_counts>(grid_for(rows * kLanes), stream_of(ctx),
                            device_data<std::int32_t>(counts_RC), rows, columns,
                            device_data<std::int32_t>(totals_R)),
        *ctx.device, "scan_rows");
}

KeyOrder order_by_key(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys) {
  const std::int64_t count = keys_N.num_elements();
  if (count == 0) return {keys_N, keys_N};
  const int key_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_keys - 1))));
  const int passes = (key_bits + kDigitBits - 1) / kDigitBits;
  const int bits = (key_bits + passes - 1) / passes;
  const auto integers = [&](const Shape& shape) {
    return Array::empty(shape, DType::kI32, ctx.allocator);
  };
  const Tiles tiles = tiles_of(count);
  const Array counts = integers({1 << bits, tiles.count}), totals = integers({1 << bits});
  const Current current(*ctx.device);
  const Grid grid = grid_for(tiles.count * kLanes);
  KeyOrder order{keys_N, {}};
  for (int p = 0; p < passes; ++p) {
    const KeyOrder next{integers({count}), integers({count})};
    const Pass pass{
        .keys = device_data<std::int32_t>(order.keys_N),
        .positions = p == 0 ? nullptr : device_data<std::int32_t>(order.positions_N),
        .count = count,
        .tiles = tiles,
        .shift = p * bits,
        .bits = bits,
    };
    check(launch<count_digits>(grid, stream_of(ctx), pass, device_data<std::int32_t>(counts)),
          *ctx.device, "order_by_key");
    scan_rows(ctx, counts, totals);
    check(launch<place_entries>(grid, stream_of(ctx), pass, device_data<std::int32_t>(counts),
                                device_data<std::int32_t>(totals),
                                device_data<std::int32_t>(next.keys_N),
                                device_data<std::int32_t>(next.positions_N)),
          *ctx.device, "order_by_key");
    order = next;
  }
  return order;
}

Array key_offsets(KernelContext& ctx, const KeyOrder& order, std::int64_t num_keys) {
  const Array offsets = Array::empty({num_keys + 1}, DType::kI32, ctx.allocator);
  const Current current(*ctx.device);
  check(launch<find_offsets>(grid_for(num_keys + 1), stream_of(ctx),
                             device_data<std::int32_t>(order.keys_N), order.keys_N.num_elements(),
                             num_keys, device_data<std::int32_t>(offsets)),
        *ctx.device, "key_offsets");
  return offsets;
}

}  // namespace tessera::kernels::TSR_CUDA
