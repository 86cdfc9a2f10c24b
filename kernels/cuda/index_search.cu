// Places in sorted sequences, counts of values, elements chosen by a mask.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/key_order.h"
#include "kernels/cuda/rows.h"
#include "kernels/index_checks.h"
#include "kernels/index_functions.h"
#include "kernels/index_search.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// A line of `size` for every `each` values; each 0: one for all.
template <class C>
__global__ void search_lines(const C* sorted, std::int64_t size, const C* values,
                             std::int64_t count, std::int64_t each, Side side,
                             std::int64_t* places) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) {
    const C* line = each == 0 ? sorted : sorted + i / each * size;
    const C value = values[i];
    std::int64_t low = 0, high = size;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      const bool is_before =
          side == Side::kLeft ? is_less(line[middle], value) : !is_less(value, line[middle]);
      if (is_before) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    places[i] = low;
  }
}

/// Counts of this block's elements go through its own memory where the bins are few.
constexpr int kOwnBins = 4096;

/// bin_of(operand, offset): the bin of an element, -1 where it does not count.
template <class BinOf>
__global__ void count_bins(MapLayout<1> layout, BinOf bin_of, std::int64_t bins,
                           unsigned long long* counts) {
  TSR_SHARED(unsigned, own, [kOwnBins]);
  const bool is_own = bins <= kOwnBins;
  if (is_own) {
    for (std::int64_t b = threadIdx.x; b < bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
  }
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    const std::int64_t bin = bin_of(layout.operands[0], offsets[0]);
    if (bin < 0) return;
    if (is_own) {
      atomicAdd(&own[bin], 1U);
    } else {
      atomicAdd(&counts[bin], 1ULL);
    }
  });
  if (!is_own) return;
  __syncthreads();
  for (std::int64_t b = threadIdx.x; b < bins; b += blockDim.x) {
    if (own[b] > 0) atomicAdd(&counts[b], static_cast<unsigned long long>(own[b]));
  }
}

struct BinOfIndex {
  PositionReader positions;
  __device__ std::int64_t operator()(const MapOperand& index, std::int64_t at) const {
    return positions.read(index.data, at);
  }
};
struct BinOfValue {
  Bins bins;
  __device__ std::int64_t operator()(const MapOperand& x, std::int64_t at) const {
    const auto value = load<double>(x, at);
    return bins.holds(value) ? bins.bin_of(value) : -1;
  }
};

/// I64.
template <class BinOf>
Array counts_of(KernelContext& ctx, const char* name, const Array& x, const BinOf& bin_of,
                std::int64_t bins) {
  const Array counts = Array::empty({bins}, DType::kI64, ctx.allocator);
  fill(ctx, 0.0, counts);
  run_layouts<1>(ctx, name, {&x}, [&](const MapLayout<1>& layout) {
    return launch<count_bins<BinOf>>(grid_for(layout.total), stream_of(ctx), layout, bin_of, bins,
                                     reinterpret_cast<unsigned long long*>(counts.bytes()));
  });
  return counts;
}

/// Chosen elements of each tile, and then where they stand. A warp a tile.
__global__ void count_chosen(MapOperand x, std::int64_t count, Tiles tiles, std::int32_t* counts) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  std::int64_t tile = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; tile < tiles.count; tile += warps) {
    int chosen = 0;
    for (std::int64_t base = 0; base < tiles.entries; base += kLanes) {
      const std::int64_t i = tile * tiles.entries + base + lane;
      chosen += __popc(__ballot_sync(kAllLanes, i < count && load<double>(x, i) != 0.0));
    }
    if (lane == 0) counts[tile] = chosen;
  }
}
__global__ void write_chosen(MapOperand x, std::int64_t count, Tiles tiles,
                             const std::int32_t* begins, std::int64_t* positions) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const unsigned lane = threadIdx.x % kLanes;
  std::int64_t tile = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; tile < tiles.count; tile += warps) {
    std::int64_t next = begins[tile];
    for (std::int64_t base = 0; base < tiles.entries; base += kLanes) {
      const std::int64_t i = tile * tiles.entries + base + lane;
      const bool is_chosen = i < count && load<double>(x, i) != 0.0;
      const unsigned chosen = __ballot_sync(kAllLanes, is_chosen);
      if (is_chosen) positions[next + __popc(chosen & ((1U << lane) - 1))] = i;
      next += __popc(chosen);
    }
  }
}

/// The first `count` elements of a dense I64 array. Blocks.
std::vector<std::int64_t> read_back(const Array& array, std::int64_t count) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  Device& device = array.device();
  device.copy(values.data(), array.bytes(), values.size() * sizeof(std::int64_t), device.compute());
  device.synchronize(device.record(device.compute()));
  return values;
}

}  // namespace

void searchsorted(KernelContext& ctx, const Array& sorted, const Array& values, Side side,
                  const Array& out) {
  check_searchsorted(sorted, values, out);
  const std::int64_t count = values.num_elements();
  if (count == 0) return;
  const DType common = promote(sorted.dtype(), values.dtype());
  const DType compute = is_half(common) ? DType::kF32 : common;
  const Array lines = contiguous(ctx, as_dtype(ctx, sorted, compute));
  const Array points = contiguous(ctx, as_dtype(ctx, values, compute));
  const bool is_ready = out.dtype() == DType::kI64 && out.is_contiguous();
  const Array places = is_ready ? out : Array::empty(out.shape(), DType::kI64, ctx.allocator);
  const std::int64_t size = sorted.size(sorted.ndim() - 1);
  const std::int64_t each = sorted.ndim() == 1 ? 0 : values.size(values.ndim() - 1);
  const Current current(*ctx.device);
  visit_dtype(compute, [&]<class T>(TypeTag<T>) {
    if constexpr (!kIsHalf<T>) {
      check(launch<search_lines<T>>(grid_for(count), stream_of(ctx), device_data<T>(lines), size,
                                    device_data<T>(points), count, each, side,
                                    device_data<std::int64_t>(places)),
            *ctx.device, "searchsorted");
    }
  });
  if (!is_ready) copy(ctx, places, out);
}

void bincount(KernelContext& ctx, const Array& x, const Array& weights, Absent absent,
              const Array& out) {
  const std::int64_t bins = out.size(0), count = x.num_elements();
  const Positions positions =
      checked_positions(ctx, contiguous(ctx, x), {"bincount", bins, absent});
  if (weights.is_null()) {
    const BinOfIndex bin_of{positions.reader};
    return copy(ctx, counts_of(ctx, "bincount", positions.index, bin_of, bins), out);
  }
  require_shape("bincount", "weights", weights, x.shape());
  if (!combines_rows(count, bins)) {
    throw Error(
        unimplemented("bincount of 2^31 weights has no kernel on " + to_string(ctx.device->id())));
  }
  const DType dtype = accumulation_type(weights.dtype());
  const Array sums = Array::empty(out.shape(), dtype, ctx.allocator);
  fill(ctx, 0.0, sums);
  const Array terms = contiguous(ctx, as_dtype(ctx, weights, dtype));
  const Array keys = keys_of(ctx, positions);
  combine_rows(ctx, "bincount", Combine::kAdd,
               {.keys_N = keys,
                .num_keys = bins,
                .out_row = sums.as_strided({bins == 0 ? 0 : 1}, {1}, 0),
                .src_row = terms.as_strided({count == 0 ? 0 : 1}, {1}, terms.offset()),
                .to_step = 1,
                .from_step = 1});
  copy(ctx, sums, out);
}

std::vector<std::int64_t> nonzero_positions(KernelContext& ctx, const Array& x) {
  const std::int64_t count = x.num_elements();
  if (count == 0) return {};
  const Array dense = contiguous(ctx, x);
  const Tiles tiles = tiles_of(count);
  const Array counts = Array::empty({1, tiles.count}, DType::kI32, ctx.allocator);
  const Array total = Array::empty({1}, DType::kI32, ctx.allocator);
  const Array positions = Array::empty({count}, DType::kI64, ctx.allocator);
  const MapOperand operand{dense.bytes(), dense.dtype(), {}};
  const Grid grid = grid_for(tiles.count * kLanes);
  const Current current(*ctx.device);
  check(launch<count_chosen>(grid, stream_of(ctx), operand, count, tiles,
                             device_data<std::int32_t>(counts)),
        *ctx.device, "nonzero_positions");
  scan_rows(ctx, counts, total);
  check(
      launch<write_chosen>(grid, stream_of(ctx), operand, count, tiles,
                           device_data<std::int32_t>(counts), device_data<std::int64_t>(positions)),
      *ctx.device, "nonzero_positions");
  return read_back(positions, integer_at(total, 0));
}

void histogram(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  const std::int64_t bins = out.size(0);
  const Array counts = counts_of(ctx, "histogram", x, BinOfValue{Bins(low, high, bins)}, bins);
  copy(ctx, as_dtype(ctx, counts, DType::kF64), out);
}

}  // namespace tessera::kernels::TSR_CUDA
