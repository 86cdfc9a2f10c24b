// Keys in order by CUB, which every toolkit has; in the emulation by the processor.
#include <algorithm>

#include "kernels/cuda/key_order.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/lines.h"

#ifdef __CUDACC__
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#else
#include <numeric>
#endif

namespace tessera::kernels::TSR_CUDA {
namespace {

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
      const int count = is_there ? *at : 0, so_far = sum_so_far(count, lane);
      if (is_there) *at = sum + so_far - count;
      sum += __shfl_sync(kAllLanes, so_far, kLanes - 1);
    }
    if (lane == 0) totals[row] = sum;
  }
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

#ifdef __CUDACC__

__global__ void number_positions(std::int32_t* positions, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) positions[i] = static_cast<std::int32_t>(i);
}

/// Keys are not negative, so that bits above those of the largest need no pass.
void sort_keys(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys,
               const KeyOrder& order) {
  const std::int64_t count = keys_N.num_elements();
  const int key_bits =
      std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_keys - 1))));
  const Array numbers = Array::empty(keys_N.shape(), DType::kI32, ctx.allocator);
  check(launch<number_positions>(grid_for(count), stream_of(ctx),
                                 device_data<std::int32_t>(numbers), count),
        *ctx.device, "order_by_key");
  const auto sort = [&](void* scratch, std::size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(scratch, bytes, device_data<const std::uint32_t>(keys_N),
                                          device_data<std::uint32_t>(order.keys_N),
                                          device_data<const std::int32_t>(numbers),
                                          device_data<std::int32_t>(order.positions_N),
                                          static_cast<int>(count), 0, key_bits, stream_of(ctx)),
          *ctx.device, "order_by_key");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Array scratch = scratch_for<std::byte>(ctx, static_cast<std::int64_t>(bytes));
  sort(scratch.bytes(), bytes);
}

std::string library_name() {
  return "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) +
         "." + std::to_string(CUB_SUBMINOR_VERSION);
}

#else

void sort_keys(KernelContext& ctx, const Array& keys_N, std::int64_t, const KeyOrder& order) {
  const auto* const keys = device_data<const std::int32_t>(keys_N);
  auto* const sorted = device_data<std::int32_t>(order.keys_N);
  auto* const positions = device_data<std::int32_t>(order.positions_N);
  const auto sort = [=, count = keys_N.num_elements()] {
    std::iota(positions, positions + count, 0);
    std::stable_sort(positions, positions + count,
                     [keys](std::int32_t a, std::int32_t b) { return keys[a] < keys[b]; });
    std::transform(positions, positions + count, sorted,
                   [keys](std::int32_t position) { return keys[position]; });
  };
  check(emulation::call_on(stream_of(ctx), sort), *ctx.device, "order_by_key");
}

std::string library_name() { return "the processor's sort"; }

#endif

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
  if (keys_N.num_elements() == 0) return {keys_N, keys_N};
  const auto integers = [&] { return Array::empty(keys_N.shape(), DType::kI32, ctx.allocator); };
  const KeyOrder order{integers(), integers()};
  const Current current(*ctx.device);
  sort_keys(ctx, keys_N, num_keys, order);
  static_cast<void>(count_call(ctx, LibraryWork::kKeyOrder, true));
  return order;
}

std::string key_order_library() { return library_name(); }

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
