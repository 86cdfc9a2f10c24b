// The largest or smallest of lines, and whole lines in order: a warp a short line, else tiles that
// are sorted and merged.
#include <bit>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/line_sort.h"
#include "kernels/select_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Up to these sizes a warp holds a line in its registers and takes one after the other.
constexpr std::int64_t kFewElements = 512;
constexpr std::int64_t kFewSelected = kLanes;

/// Operands: values, indices, x. n elements of each line of x, the first k in order.
struct Selection {
  MapLayout<3> layout;
  LineSteps<3> steps;
  std::int64_t n, k;
  Order order;

  template <class C>
  __device__ EntryOf<C> entry(std::int64_t line, std::int64_t i) const {
    std::int64_t offsets[3];
    offsets_of(layout, line, offsets);
    return entry_at<C>(offsets, i);
  }
  template <class C>
  __device__ EntryOf<C> entry_at(const std::int64_t* offsets, std::int64_t i) const {
    const C value = load<C>(layout.operands[2], offsets[2] + i * steps.of[2]);
    return EntryOf<C>::of(rank_key(value, order), i);
  }
  __device__ void put(std::int64_t line, std::int64_t rank, std::int64_t index) const {
    std::int64_t offsets[3];
    offsets_of(layout, line, offsets);
    put_at(offsets, rank, index);
  }
  __device__ void put_at(const std::int64_t* offsets, std::int64_t rank, std::int64_t index) const {
    copy_element(layout.operands[0], offsets[0] + rank * steps.of[0], layout.operands[2],
                 offsets[2] + index * steps.of[2]);
    store_as<std::int64_t>(layout.operands[1].data, offsets[1] + rank * steps.of[1], index);
  }
};

/// A warp a line of up to kHeld · kLanes elements.
template <class C, int kHeld>
__global__ void select_few(Selection selection) {
  using Entry = EntryOf<C>;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  std::int64_t line = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; line < selection.layout.total; line += warps) {
    std::int64_t offsets[3];
    offsets_of(selection.layout, line, offsets);
    Entry held[kHeld];
    for (int j = 0; j < kHeld; ++j) {
      const std::int64_t i = j * kLanes + lane;
      held[j] = i < selection.n ? selection.entry_at<C>(offsets, i) : Entry{};
    }
    Entry mine{};  // of the rank that is this lane's
    for (int rank = 0; rank < static_cast<int>(selection.k); ++rank) {
      Entry first = held[0];
      for (int j = 1; j < kHeld; ++j) {
        if (held[j].before(first)) first = held[j];
      }
      first = first_of_warp(first);
      if (lane == rank) mine = first;
      // Entries differ: whoever is not behind the first is it.
      for (int j = 0; j < kHeld; ++j) {
        if (!first.before(held[j])) held[j] = Entry{};
      }
    }
    if (lane < selection.k) selection.put_at(offsets, lane, mine.index());
  }
}

/// What becomes of a sorted tile.
struct PutRanks {
  Selection selection;
  template <class Entry>
  __device__ void operator()(std::int64_t line, std::int64_t i, const Entry& entry) const {
    if (line < selection.layout.total && i < selection.k) selection.put(line, i, entry.index());
  }
};
template <class Entry>
struct KeepRuns {
  LineRuns runs;
  Entry* entries;
  __device__ void operator()(std::int64_t run, std::int64_t i, const Entry& entry) const {
    const std::int64_t line = run / runs.count, number = run % runs.count;
    if (line >= runs.lines || i >= runs.size_of_run(number)) return;
    entries[runs.place(line, number) + i] = entry;
  }
};

/// Sorts each `segment` elements of the selection's lines, `runs` segments a line:
/// sink(number of the segment, rank in it, entry).
template <class C, class Sink>
__global__ void sort_tiles(Selection selection, std::int64_t runs, int segment, Sink sink) {
  using Entry = EntryOf<C>;
  TSR_SHARED(Entry, tile, [kSortTile]);
  const std::int64_t total = selection.layout.total * runs;
  const std::int64_t segments = kSortTile / segment;  // of a tile
  for (std::int64_t first = blockIdx.x * segments; first < total; first += gridDim.x * segments) {
    for (int t = static_cast<int>(threadIdx.x); t < kSortTile; t += kSortThreads) {
      const std::int64_t run = first + t / segment, i = run % runs * segment + t % segment;
      const bool is_real = run < total && i < selection.n;
      tile[t] = is_real ? selection.entry<C>(run / runs, i) : Entry{};
    }
    __syncthreads();
    sort_tile(&tile[0], segment);
    for (int t = static_cast<int>(threadIdx.x); t < kSortTile; t += kSortThreads) {
      sink(first + t / segment, t % segment, tile[t]);
    }
    __syncthreads();
  }
}

template <class Entry>
__global__ void put_entries(Selection selection, const Entry* entries) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; at < selection.layout.total * selection.k; at += step) {
    selection.put(at / selection.k, at % selection.k, entries[at].index());
  }
}

template <class C>
cudaError_t select_in_warps(cudaStream_t stream, const Selection& selection) {
  const Grid grid = grid_for(selection.layout.total * kLanes);
  if (selection.n <= 2 * kLanes) return launch<select_few<C, 2>>(grid, stream, selection);
  if (selection.n <= 8 * kLanes) return launch<select_few<C, 8>>(grid, stream, selection);
  return launch<select_few<C, 16>>(grid, stream, selection);
}

/// Lines that fit into a tile, several of them in one where they are short.
template <class C>
cudaError_t sort_in_tiles(cudaStream_t stream, const Selection& selection) {
  const auto held = static_cast<std::uint64_t>(std::max<std::int64_t>(selection.n, kSortEach));
  const int segment = static_cast<int>(std::bit_ceil(held));
  const std::int64_t tiles = (selection.layout.total * segment + kSortTile - 1) / kSortTile;
  return launch<sort_tiles<C, PutRanks>>(sort_grid(tiles), stream, selection, std::int64_t{1},
                                         segment, PutRanks{selection});
}

template <class C>
cudaError_t sort_and_merge(KernelContext& ctx, const Selection& selection) {
  using Entry = EntryOf<C>;
  const cudaStream_t stream = stream_of(ctx);
  LineRuns runs(selection.layout.total, selection.n, selection.k, kSortTile);
  const auto room_for = [&](const LineRuns& of) {
    return scratch_for<Entry>(ctx, of.lines * of.line_entries);
  };
  Array sorted = room_for(runs), merged = room_for(runs.merged());
  check(launch<sort_tiles<C, KeepRuns<Entry>>>(sort_grid(runs.lines * runs.count), stream,
                                               selection, runs.count, kSortTile,
                                               KeepRuns<Entry>{runs, device_data<Entry>(sorted)}),
        *ctx.device, "sort");
  while (runs.count > 1) {
    const LineRuns next = runs.merged();
    const std::int64_t pieces = (next.pitch + kSortTile - 1) / kSortTile;
    check(launch<merge_runs<Entry>>(sort_grid(next.lines * next.count * pieces), stream,
                                    device_data<Entry>(sorted), runs, next,
                                    device_data<Entry>(merged)),
          *ctx.device, "sort");
    std::swap(sorted, merged);
    runs = next;
  }
  return launch<put_entries<Entry>>(grid_for(runs.lines * selection.k), stream, selection,
                                    device_data<Entry>(sorted));
}

void select_lines(KernelContext& ctx, const char* name, const Array& x, int dim, Order order,
                  const Array& values, const Array& indices) {
  if (values.num_elements() == 0) return;
  const std::int64_t n = x.size(dim), k = values.size(dim);
  // Narrow entries number so many elements; beyond, the next wider type compares the same.
  const bool is_wide = n > kMaxCompositeLine;
  const DType wide = is_floating(x.dtype()) ? DType::kF64 : DType::kI64;
  visit_compute_type(is_wide ? wide : x.dtype(), [&]<class C>(TypeTag<C>) {
    run_line_layouts<3>(ctx, name, {{{values, dim}, {indices, dim}, {x, dim}}},
                        [&](const MapLayout<3>& layout, const LineSteps<3>& steps, std::int64_t) {
                          const Selection selection{layout, steps, n, k, order};
                          if (n <= kFewElements && k <= kFewSelected && k < n) {
                            return select_in_warps<C>(stream_of(ctx), selection);
                          }
                          if (n <= kSortTile) return sort_in_tiles<C>(stream_of(ctx), selection);
                          return sort_and_merge<C>(ctx, selection);
                        });
  });
}

}  // namespace

void topk(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices) {
  check_topk(x, dim, values, indices);
  select_lines(ctx, "topk", x, dim, order, values, indices);
}

void sort(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices) {
  check_sort(x, dim, values, indices);
  select_lines(ctx, "sort", x, dim, order, values, indices);
}

}  // namespace tessera::kernels::TSR_CUDA
