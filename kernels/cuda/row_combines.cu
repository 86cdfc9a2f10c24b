#include <array>

#include "kernels/cuda/key_order.h"
#include "kernels/cuda/rows.h"
#include "kernels/index_functions.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Entries by the row that they go into.
struct KeyGroups {
  const std::int32_t* keys;
  const std::int32_t* entries;
  std::int64_t count;
  std::int32_t num_keys;

  __device__ bool holds(std::int64_t i, std::int32_t key) const {
    return i < count && keys[i] == key;
  }
  /// Whether i is the first entry of a row's.
  __device__ bool begins(std::int64_t i) const {
    return keys[i] != num_keys && (i == 0 || keys[i - 1] != keys[i]);
  }
  __device__ bool ends(std::int64_t i) const {
    return keys[i] != num_keys && !holds(i + 1, keys[i]);
  }
};

/// Half precision is kept in F32 until the last entry.
template <class T>
using KeptType = std::conditional_t<kIsHalf<T>, float, T>;

/// The team of a group's first entry walks through the group.
template <class T, int kCount, class Op>
__global__ void combine_groups(RowGrid grid, RowPair rows, KeyGroups groups) {
  using Kept = KeptType<T>;
  using Values = Pack<T, kCount>;
  constexpr int kAhead = 4;  // rows that are read before the first is added
  Values* const to = reinterpret_cast<Values*>(rows.row.operands[0].data);
  const Values* const from = reinterpret_cast<const Values*>(rows.row.operands[1].data);
  const auto walk = [&](std::int64_t begin, std::int64_t at) {
    const std::int32_t key = groups.keys[begin];
    std::int64_t offsets[2];
    offsets_of(rows.row, at, offsets);
    Values* const target = to + key * rows.to_step + offsets[0];
    const Values before = *target;
    Kept kept[kCount];
    for (int c = 0; c < kCount; ++c) kept[c] = convert<Kept>(before.of[c]);
    bool is_held = true;
    for (std::int64_t i = begin; is_held; i += kAhead) {
      Values values[kAhead];
      bool held[kAhead];
      for (int k = 0; k < kAhead; ++k) {
        held[k] = groups.holds(i + k, key);
        if (held[k]) values[k] = from[groups.entries[i + k] * rows.from_step + offsets[1]];
      }
      for (int k = 0; k < kAhead; ++k) {
        for (int c = 0; held[k] && c < kCount; ++c) {
          Op{}(kept[c], convert<Kept>(values[k].of[c]));
        }
      }
      is_held = held[kAhead - 1];
    }
    Values after;
    for (int c = 0; c < kCount; ++c) after.of[c] = convert<T>(kept[c]);
    *target = after;
  };
  for_each_piece(grid, [&](std::int64_t i, std::int64_t first) {
    if (!groups.begins(i)) return;
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t at = first + std::int64_t{p} * grid.lanes;
      if (at < grid.packs) walk(i, at);
    }
  });
}

/// Rows of one element: a warp for 32 entries. Who begins a short group walks through it; through a
/// long one the warp goes, 32 entries at a time.
template <class T, class Op>
__global__ void combine_elements(RowPair rows, KeyGroups groups) {
  using Kept = KeptType<T>;
  T* const to = reinterpret_cast<T*>(rows.row.operands[0].data);
  const T* const from = reinterpret_cast<const T*>(rows.row.operands[1].data);
  const auto term = [&](std::int64_t i) {
    return convert<Kept>(from[groups.entries[i] * rows.from_step]);
  };
  const auto walk = [&](std::int64_t begin) {
    const std::int32_t key = groups.keys[begin];
    Kept kept = convert<Kept>(to[key * rows.to_step]);
    for (std::int64_t i = begin; groups.holds(i, key); ++i) Op{}(kept, term(i));
    to[key * rows.to_step] = convert<T>(kept);
  };
  const int lane = threadIdx.x % kLanes;
  const auto walk_together = [&](std::int64_t begin) {
    const std::int32_t key = groups.keys[begin];
    // One lane alone reads what it will write: the others' sums are of their own.
    Kept kept = lane == 0 ? convert<Kept>(to[key * rows.to_step]) : Kept{};
    std::int64_t i = begin + lane;
    bool is_held = groups.holds(i, key);
    Kept value = is_held ? term(i) : Kept{};
    for (int count = kLanes; count == kLanes;) {
      // The next entries are on their way while these are added.
      i += kLanes;
      const bool is_next_held = groups.holds(i, key);
      const Kept next = is_next_held ? term(i) : Kept{};
      count = __popc(__ballot_sync(kAllLanes, is_held));
      for (int other = 0; other < count; ++other) {
        Op{}(kept, static_cast<Kept>(__shfl_sync(kAllLanes, value, other)));
      }
      is_held = is_next_held;
      value = next;
    }
    if (lane == 0) to[key * rows.to_step] = convert<T>(kept);
  };
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x - lane;
  for (; base < groups.count; base += step) {
    const std::int64_t i = base + lane;
    const bool begins = i < groups.count && groups.begins(i);
    const bool is_long = begins && groups.holds(i + kLanes, groups.keys[i]);
    if (begins && !is_long) walk(i);
    unsigned left = __ballot_sync(kAllLanes, is_long);
    for (; left != 0; left &= left - 1) walk_together(base + __ffs(static_cast<int>(left)) - 1);
  }
}

/// A group's last entry wins.
template <class Word>
__global__ void assign_last(RowGrid grid, RowPair rows, KeyGroups groups) {
  Word* const to = reinterpret_cast<Word*>(rows.row.operands[0].data);
  const Word* const from = reinterpret_cast<const Word*>(rows.row.operands[1].data);
  for_each_piece(grid, [&](std::int64_t i, std::int64_t first) {
    if (!groups.ends(i)) return;
    const std::int64_t target = groups.keys[i] * rows.to_step;
    const std::int64_t source = groups.entries[i] * rows.from_step;
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t at = first + std::int64_t{p} * grid.lanes;
      if (at >= grid.packs) continue;
      std::int64_t offsets[2];
      offsets_of(rows.row, at, offsets);
      to[target + offsets[0]] = from[source + offsets[1]];
    }
  });
}

__global__ void write_keys(PositionReader positions, std::int64_t count, std::int32_t* keys) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) {
    const std::int64_t position = positions.read(i);
    keys[i] = static_cast<std::int32_t>(position < 0 ? positions.size : position);
  }
}

template <class T, int kCount, class Op>
cudaError_t launch_combine(KernelContext& ctx, const RowPair& rows, const KeyGroups& groups) {
  if (rows.row.total == 1 && kCount == 1) {
    return launch<combine_elements<T, Op>>(grid_for(groups.count), stream_of(ctx), rows, groups);
  }
  const RowGrid grid = row_grid(groups.count, rows.row.total);
  return launch<combine_groups<T, kCount, Op>>(grid_for(grid.threads()), stream_of(ctx), grid, rows,
                                               groups);
}

template <class Op>
cudaError_t combine_with(KernelContext& ctx, RowPair rows, const KeyGroups& groups) {
  return visit_dtype(rows.row.operands[0].dtype, [&]<class T>(TypeTag<T>) {
    constexpr int kCount = kPackBytes / sizeof(T);
    if constexpr (std::is_same_v<Op, AddTo> && is_floating(dtype_of<T>())) {
      if (cut_into_packs(rows, kCount)) return launch_combine<T, kCount, Op>(ctx, rows, groups);
    }
    return launch_combine<T, 1, Op>(ctx, rows, groups);
  });
}

template <class Word>
cudaError_t launch_assign(KernelContext& ctx, const RowPair& rows, const KeyGroups& groups) {
  const RowGrid grid = row_grid(groups.count, rows.row.total);
  return launch<assign_last<Word>>(grid_for(grid.threads()), stream_of(ctx), grid, rows, groups);
}

cudaError_t assign(KernelContext& ctx, RowPair rows, const KeyGroups& groups) {
  const std::int64_t bytes = size_of(rows.row.operands[0].dtype);
  if (cut_into_packs(rows, static_cast<int>(kPackBytes / bytes))) {
    return launch_assign<uint4>(ctx, rows, groups);
  }
  switch (bytes) {
    case 8:
      return launch_assign<std::uint64_t>(ctx, rows, groups);
    case 4:
      return launch_assign<std::uint32_t>(ctx, rows, groups);
    case 2:
      return launch_assign<std::uint16_t>(ctx, rows, groups);
    default:
      return launch_assign<std::uint8_t>(ctx, rows, groups);
  }
}

cudaError_t combine_layout(KernelContext& ctx, Combine combine, const RowPair& rows,
                           const KeyGroups& groups) {
  switch (combine) {
    case Combine::kAdd:
      return combine_with<AddTo>(ctx, rows, groups);
    case Combine::kProduct:
      return combine_with<MultiplyBy>(ctx, rows, groups);
    case Combine::kMax:
      return combine_with<TakeExtreme<1>>(ctx, rows, groups);
    case Combine::kMin:
      return combine_with<TakeExtreme<-1>>(ctx, rows, groups);
    case Combine::kAssign:
      break;
  }
  return assign(ctx, rows, groups);
}

}  // namespace

void combine_rows(KernelContext& ctx, const char* name, Combine combine, const RowTargets& rows) {
  const std::int64_t count = rows.keys_N.num_elements();
  if (count == 0 || rows.out_row.num_elements() == 0) return;
  const KeyOrder order = order_by_key(ctx, rows.keys_N, rows.num_keys + 1);
  const KeyGroups groups{
      .keys = device_data<std::int32_t>(order.keys_N),
      .entries = device_data<std::int32_t>(order.positions_N),
      .count = count,
      .num_keys = static_cast<std::int32_t>(rows.num_keys),
  };
  run_layouts<2>(ctx, name, {&rows.out_row, &rows.src_row}, [&](const MapLayout<2>& layout) {
    return combine_layout(ctx, combine, {layout, rows.to_step, rows.from_step}, groups);
  });
}

Array keys_of(KernelContext& ctx, const Positions& positions) {
  const std::int64_t count = positions.index.num_elements();
  const Array keys = Array::empty({count}, DType::kI32, ctx.allocator);
  if (count == 0) return keys;
  const Current current(*ctx.device);
  check(launch<write_keys>(grid_for(count), stream_of(ctx), positions.reader, count,
                           device_data<std::int32_t>(keys)),
        *ctx.device, "keys_of");
  return keys;
}

}  // namespace tessera::kernels::TSR_CUDA
