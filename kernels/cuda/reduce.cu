#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/reduce_folds.h"
#include "placement/reduce_op.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// The dims that go, from the innermost.
struct Reduced {
  std::int64_t count = 1;
  int ndim = 0;
  std::int64_t sizes[kLaunchDims] = {};
  std::int64_t strides[kLaunchDims] = {};
  std::int64_t divisor = -1;  // of what is left; −1: none
};

template <class Index>
__device__ std::int64_t offset_of(const Reduced& reduced, Index rest) {
  std::int64_t offset = 0;
  for (int d = 0; d < reduced.ndim; ++d) {
    Index coord = rest;
    if (d + 1 < reduced.ndim) {
      const auto size = static_cast<Index>(reduced.sizes[d]);
      rest /= size;
      coord -= rest * size;
    }
    offset += static_cast<std::int64_t>(coord) * reduced.strides[d];
  }
  return offset;
}

/// Of every `step`th element from `first` on.
template <class T, class Fold>
__device__ typename Fold::Value fold_of(const Reduced& reduced, const T* from, std::int64_t first,
                                        std::int64_t step) {
  using Value = typename Fold::Value;
  constexpr int kInFlight = 8;
  Value value = Fold::kIdentity;
  for (std::int64_t i = first; i < reduced.count; i += kInFlight * step) {
    Value next[kInFlight];
    TSR_UNROLL
    for (int e = 0; e < kInFlight; ++e) {
      const std::int64_t at = i + e * step;
      next[e] = Fold::kIdentity;
      if (at >= reduced.count) continue;
      const std::int64_t offset = reduced.count <= kMostByWords
                                      ? offset_of(reduced, static_cast<std::uint32_t>(at))
                                      : offset_of(reduced, at);
      next[e] = convert<Value>(from[offset]);
    }
    TSR_UNROLL
    for (int e = 0; e < kInFlight; ++e) value = Fold::apply(value, next[e]);
  }
  return value;
}

template <class Value>
__device__ void store_fold(const Reduced& reduced, const MapOperand& to, std::int64_t at,
                           Value value) {
  if (reduced.divisor < 0) return store(to, at, value);
  store(to, at, static_cast<double>(value) / static_cast<double>(reduced.divisor));
}

/// Operands: out, the first element of what folds into it.
template <class T, class Fold>
struct ReduceLine {
  Reduced reduced;

  __device__ void operator()(const Lines<2>& line) const {
    const T* from = reinterpret_cast<const T*>(line.layout.operands[1].data);
    auto value = fold_of<T, Fold>(reduced, from + line.offsets[1], line.lane, kLanes);
    for (int step = kLanes / 2; step > 0; step /= 2) {
      value = Fold::apply(value, __shfl_xor_sync(kAllLanes, value, step));
    }
    if (line.lane == 0) store_fold(reduced, line.layout.operands[0], line.offsets[0], value);
  }
};

/// The same, a thread a line: where the lines' first elements lie beside each other.
template <class T, class Fold>
__global__ void reduce_columns(MapLayout<2> layout, Reduced reduced) {
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    const T* from = reinterpret_cast<const T*>(layout.operands[1].data);
    store_fold(reduced, layout.operands[0], offsets[0],
               fold_of<T, Fold>(reduced, from + offsets[1], 0, 1));
  });
}

/// Writes x's dims that go, merged where they lie evenly. False where that leaves more than a
/// launch covers.
bool merge_reduced(const Array& x, const absl::InlinedVector<bool, 6>& marks, Reduced& reduced) {
  for (int d = x.ndim() - 1; d >= 0; --d) {
    const std::int64_t size = x.size(d), stride = x.strides()[static_cast<std::size_t>(d)];
    if (!marks[static_cast<std::size_t>(d)]) continue;
    reduced.count *= size;
    if (size == 1) continue;
    if (reduced.ndim > 0) {
      std::int64_t& inner = reduced.sizes[reduced.ndim - 1];
      if (reduced.strides[reduced.ndim - 1] * inner == stride) {
        inner *= size;
        continue;
      }
    }
    if (reduced.ndim == kLaunchDims) return false;
    reduced.sizes[reduced.ndim] = size;
    reduced.strides[reduced.ndim++] = stride;
  }
  return true;
}

/// How lines are folded: a thread each, or a warp each.
enum class Team : std::uint8_t { kThread, kWarp };

Team team_of(const Reduced& reduced, const Array& kept) {
  if (reduced.ndim == 0 || reduced.strides[0] == 1) return Team::kWarp;
  for (int d = 0; d < kept.ndim(); ++d) {
    if (kept.size(d) > 1 && kept.strides()[static_cast<std::size_t>(d)] == 1) return Team::kThread;
  }
  return Team::kWarp;
}

/// In how many parts lines fold, so that few long ones fill a card; it follows from sizes alone, so
/// that results have the same bits each time. Divides the outermost dim that goes.
std::int64_t parts_of(const Reduced& reduced, Team team, std::int64_t lines) {
#ifdef __CUDACC__
  constexpr std::int64_t kWantedThreads = 65536, kLeastOfThread = 32;
#else
  constexpr std::int64_t kWantedThreads = 4096, kLeastOfThread = 2;
#endif
  constexpr std::int64_t kMostParts = 1024;
  if (reduced.ndim == 0) return 1;
  const std::int64_t threads = team == Team::kWarp ? kLanes : 1;
  const std::int64_t wanted = std::min(
      {kWantedThreads / (lines * threads), reduced.count / (threads * kLeastOfThread), kMostParts});
  if (wanted < 2) return 1;
  auto parts = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(wanted)));
  while (reduced.sizes[reduced.ndim - 1] % parts != 0) parts /= 2;
  return parts;
}

template <class T, class Fold>
void fold_lines(KernelContext& ctx, const Reduced& reduced, Team team, const Array& kept,
                const Array& out) {
  if (team == Team::kWarp) {
    return run_lines<2>(ctx, "reduce", {{{out}, {kept}}}, ReduceLine<T, Fold>{reduced});
  }
  run_layouts<2>(ctx, "reduce", {&out, &kept}, [&](const MapLayout<2>& layout) {
    return launch<reduce_columns<T, Fold>>(grid_for(layout.total), stream_of(ctx), layout, reduced);
  });
}

template <template <class> class Fold, class T>
void fold_in_parts(KernelContext& ctx, Reduced reduced, const Array& kept, const Array& out) {
  using Value = typename Fold<T>::Value;
  const Team team = team_of(reduced, kept);
  const std::int64_t parts = parts_of(reduced, team, out.num_elements());
  if (parts == 1) return fold_lines<T, Fold<T>>(ctx, reduced, team, kept, out);

  Reduced of_parts;
  of_parts.count = of_parts.sizes[0] = parts;
  of_parts.ndim = 1;
  of_parts.strides[0] = 1;
  of_parts.divisor = std::exchange(reduced.divisor, -1);
  reduced.count /= parts;
  std::int64_t& outermost = reduced.sizes[reduced.ndim - 1];
  outermost /= parts;
  Shape shape = kept.shape(), strides = kept.strides();
  shape.push_back(parts);
  strides.push_back(outermost * reduced.strides[reduced.ndim - 1]);
  const Array folded = Array::empty(shape, dtype_of<Value>(), ctx.allocator);
  fold_lines<T, Fold<T>>(ctx, reduced, team, kept.as_strided(shape, strides, kept.offset()),
                         folded);
  fold_lines<Value, Fold<Value>>(ctx, of_parts, Team::kWarp,
                                 first_elements(ctx, folded, folded.ndim() - 1), out);
}

/// The kept dims of x before those that go, dense.
Array reduced_last(KernelContext& ctx, const Array& x, absl::InlinedVector<bool, 6>& marks) {
  Shape shape, strides;
  absl::InlinedVector<bool, 6> sorted;
  for (const bool goes : {false, true}) {
    for (std::size_t d = 0; d < marks.size(); ++d) {
      if (marks[d] != goes) continue;
      shape.push_back(x.shape()[d]);
      strides.push_back(x.strides()[d]);
      sorted.push_back(goes);
    }
  }
  marks = sorted;
  return contiguous(ctx, x.as_strided(shape, strides, x.offset()));
}

}  // namespace

void reduce(KernelContext& ctx, ReduceOp op, const Array& x, std::span<const int> dims,
            const Array& out) {
  const absl::InlinedVector<bool, 6> asked = reduced_marks(x, dims);
  check_output(x, asked, out);
  if (out.num_elements() == 0) return;
  Array source = x;
  absl::InlinedVector<bool, 6> marks = asked;  // of source's dims
  Reduced reduced;
  if (!merge_reduced(x, marks, reduced)) {
    source = reduced_last(ctx, x, marks);
    reduced = {};
    merge_reduced(source, marks, reduced);
  }
  if (divides(op)) reduced.divisor = reduced.count;
  // The dims that stay, and out without those that it keeps as 1.
  Array kept = source, result = out;
  const bool keeps_ones = out.ndim() == x.ndim();
  for (int d = x.ndim() - 1; d >= 0; --d) {
    if (marks[static_cast<std::size_t>(d)]) kept = first_elements(ctx, kept, d);
    if (keeps_ones && asked[static_cast<std::size_t>(d)]) result = first_elements(ctx, result, d);
  }
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    with_reduce_fold(op, [&]<template <class> class Fold>() {
      fold_in_parts<Fold, T>(ctx, reduced, kept, result);
    });
  });
}

}  // namespace tessera::kernels::TSR_CUDA
