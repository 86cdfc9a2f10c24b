#include "kernels/select.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/host/dim_lines.h"
#include "kernels/host/select_lanes.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/select_checks.h"
#include "kernels/select_keys.h"

namespace tessera::kernels {
namespace {

// Up to these sizes k passes of a vector maximum beat any sort.
constexpr std::int64_t kFewElements = 512;
constexpr std::int64_t kFewSelected = 32;

/// A wide key with its position; larger comes first, of equal keys the lower position.
struct WideKey {
  std::uint64_t key;
  std::int64_t index;
  friend bool operator<(const WideKey& a, const WideKey& b) {
    return a.key != b.key ? a.key > b.key : a.index < b.index;
  }
};

/// One line to select from: n values `stride` apart, k wanted.
template <class T>
struct Line {
  const T* values;
  std::int64_t stride, n, k;
  Order order;
};

/// Eight composites that compare at once; the compiler lowers them where registers are shorter.
using Lanes = std::uint64_t __attribute__((vector_size(64), aligned(64), may_alias));
constexpr std::int64_t kKeyLanes = 16;  // two Lanes a step
// Composites are padded with zeros, which are below all real ones, to a multiple of the lanes.
constexpr std::int64_t padded(std::int64_t n) {
  return (n + kKeyLanes - 1) / kKeyLanes * kKeyLanes;
}

inline Lanes larger(const Lanes& a, const Lanes& b) { return a > b ? a : b; }

/// The largest composite below `bound`, 0 if none; n is a multiple of kKeyLanes, keys lie aligned.
inline std::uint64_t largest_below(const std::uint64_t* keys, std::int64_t n, std::uint64_t bound) {
  const Lanes limit = Lanes{} + bound;
  const Lanes none{};
  Lanes even{};
  Lanes odd{};
  for (std::int64_t i = 0; i < n; i += kKeyLanes) {
    const Lanes* at = reinterpret_cast<const Lanes*>(keys + i);
    even = larger(even, at[0] < limit ? at[0] : none);
    odd = larger(odd, at[1] < limit ? at[1] : none);
  }
  Lanes best = larger(even, odd);
  best = larger(best, __builtin_shufflevector(best, best, 4, 5, 6, 7, 0, 1, 2, 3));
  best = larger(best, __builtin_shufflevector(best, best, 2, 3, 0, 1, 6, 7, 4, 5));
  best = larger(best, __builtin_shufflevector(best, best, 1, 0, 3, 2, 5, 4, 7, 6));
  return best[0];
}

template <class T>
void build_composites(const Line<T>& line, std::uint64_t* keys) {
  constexpr std::int64_t kPiece = 256;
  std::uint32_t narrow[kPiece];
  const std::uint32_t flip = line.order == Order::kDescending ? 0U : 0xffffffffU;
  for (std::int64_t begin = 0; begin < line.n; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, line.n - begin);
    const T* from = line.values + begin * line.stride;
    if (line.stride == 1) {
#pragma omp simd
      for (std::int64_t i = 0; i < count; ++i) {
        narrow[i] = ordered_key(convert<ComputeType<T>>(from[i])) ^ flip;
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        narrow[i] = ordered_key(convert<ComputeType<T>>(from[i * line.stride])) ^ flip;
      }
    }
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      keys[begin + i] = composite(narrow[i], static_cast<std::uint32_t>(begin + i));
    }
  }
}

/// emit(rank, index) for rank 0 … k − 1.
template <class T, class Emit>
void select_few(const Line<T>& line, Emit emit) {
  alignas(64) std::uint64_t keys[kFewElements];
  build_composites(line, keys);
  const std::int64_t n = padded(line.n);
  std::fill(keys + line.n, keys + n, std::uint64_t{0});
  // Composites differ by their positions, so each pass finds exactly the next one.
  std::uint64_t chosen = kAboveComposites;
  for (std::int64_t rank = 0; rank < line.k; ++rank) {
    chosen = largest_below(keys, n, chosen);
    emit(rank, index_of(chosen));
  }
}

template <class T, class Emit>
void select_sorted(const Line<T>& line, Emit emit) {
  const auto n = static_cast<std::size_t>(line.n);
  const auto k = static_cast<std::size_t>(line.k);
  if constexpr (kNarrowKey<T>) {
    if (line.n <= kMaxCompositeLine) {
      std::vector<std::uint64_t> keys(n);
      build_composites(line, keys.data());
      const auto by_rank = [](std::uint64_t a, std::uint64_t b) { return a > b; };
      if (k * 8 < n)
        std::partial_sort(keys.begin(), keys.begin() + line.k, keys.end(), by_rank);
      else
        std::sort(keys.begin(), keys.end(), by_rank);
      for (std::int64_t rank = 0; rank < line.k; ++rank)
        emit(rank, index_of(keys[static_cast<std::size_t>(rank)]));
      return;
    }
  }
  const auto keys = std::make_unique_for_overwrite<WideKey[]>(n);
  for (std::int64_t i = 0; i < line.n; ++i) {
    keys[static_cast<std::size_t>(i)] = {rank_key(line.values[i * line.stride], line.order), i};
  }
  if (k * 8 < n)
    std::partial_sort(keys.get(), keys.get() + k, keys.get() + n);
  else
    std::sort(keys.get(), keys.get() + n);
  for (std::int64_t rank = 0; rank < line.k; ++rank)
    emit(rank, keys[static_cast<std::size_t>(rank)].index);
}

/// Keys of up to kLineGroup elements of a line from `first` on, the largest first in its order.
template <class T>
[[gnu::always_inline]] inline Vec<std::uint32_t> load_keys(const Line<T>& line, std::int64_t first,
                                                           std::int64_t count) {
  const T* from = line.values + first * line.stride;
  const std::uint32_t flip = line.order == Order::kDescending ? 0U : 0xffffffffU;
  if constexpr (std::is_same_v<T, float>) {
    if (line.stride == 1 && count == kLineGroup) return lanes::ordered_keys(load_vec(from)) ^ flip;
  }
  alignas(64) std::uint32_t keys[kLineGroup] = {};
  if (line.stride == 1 && count == kLineGroup) {
#pragma omp simd
    for (std::int64_t i = 0; i < kLineGroup; ++i) {
      keys[i] = ordered_key(convert<ComputeType<T>>(from[i]));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      keys[i] = ordered_key(convert<ComputeType<T>>(from[i * line.stride]));
    }
  }
  return load_vec(keys) ^ flip;
}

/// A group of lines at once; the last one stands in where there are fewer. Requires k <=
/// kMostInLanes.
template <class T>
void select_group(const Line<T>* group, std::int64_t lines, LineRanks& best) {
  const std::int64_t n = group->n;
  alignas(64) Vec<std::uint32_t> keys[kFewElements];
  for (std::int64_t first = 0; first < n; first += kLineGroup) {
    const std::int64_t count = std::min(kLineGroup, n - first);
    for (std::int64_t line = 0; line < kLineGroup; ++line) {
      keys[first + line] = load_keys(group[std::min(line, lines - 1)], first, count);
    }
  }
  switch (group->k) {
    case 1:
      return select_in_lanes<1>(n, keys, best);
    case 2:
      return select_in_lanes<2>(n, keys, best);
    case 3:
    case 4:
      return select_in_lanes<4>(n, keys, best);
    case 5:
    case 6:
      return select_in_lanes<6>(n, keys, best);
    default:
      return select_in_lanes<8>(n, keys, best);
  }
}

/// Where the lines of an input and of both outputs are.
template <class T>
struct Selection {
  Selection(const Array& x, int dim, Order order, std::pair<const Array&, const Array&> outputs)
      : lines(dim, {&outputs.second, &x, &outputs.first}),
        n(x.size(dim)),
        k(outputs.first.size(dim)),
        order(order),
        from(x.data<T>()),
        values(outputs.first.data<T>()),
        indices(outputs.second.data<std::int64_t>()) {}

  Line<T> line(const Offsets& at) const { return {from + at[1], lines.stride(1), n, k, order}; }
  void put(const Offsets& at, std::int64_t rank, std::int64_t index) const {
    values[at[2] + rank * lines.stride(2)] = from[at[1] + index * lines.stride(1)];
    indices[at[0] + rank * lines.stride(0)] = index;
  }

  DimLines lines;
  std::int64_t n, k;
  Order order;
  const T* from;
  T* values;
  std::int64_t* indices;
};

template <class T>
void select_each(KernelContext& ctx, const Selection<T>& to) {
  to.lines.for_each(ctx.threads, [&](const Offsets& at) {
    const Line<T> line = to.line(at);
    const auto emit = [&](std::int64_t rank, std::int64_t index) { to.put(at, rank, index); };
    if constexpr (kNarrowKey<T>) {
      if (line.n <= kFewElements && line.k <= kFewSelected) return select_few(line, emit);
    }
    select_sorted(line, emit);
  });
}

template <class T>
void select_groups(KernelContext& ctx, const Selection<T>& to) {
  const auto over = [&](std::int64_t begin, std::int64_t end) {
    Offsets at[kLineGroup];
    Line<T> group[kLineGroup];
    std::int64_t filled = 0;
    const auto flush = [&] {
      alignas(64) LineRanks best;
      select_group(group, filled, best);
      for (std::int64_t line = 0; line < filled; ++line) {
        for (std::int64_t rank = 0; rank < to.k; ++rank) {
          to.put(at[line], rank, index_of(best[rank][place_of_line(line)]));
        }
      }
      filled = 0;
    };
    to.lines.for_range(begin, end, [&](const Offsets& offsets) {
      at[filled] = offsets;
      group[filled++] = to.line(offsets);
      if (filled == kLineGroup) flush();
    });
    if (filled > 0) flush();
  };
  parallel_ranges(ctx.threads, to.lines.count(), kLineGroup, to.n, over);
}

void select_lines(KernelContext& ctx, const Array& x, int dim, Order order,
                  std::pair<const Array&, const Array&> outputs) {
  if (outputs.first.num_elements() == 0) return;
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const Selection<T> to(x, dim, order, outputs);
    if constexpr (kNarrowKey<T> && kSelectsInLanes) {
      const bool many = to.lines.count() >= kLineGroup;
      if (many && to.n <= kFewElements && to.k <= kMostInLanes) {
        return select_groups(ctx, to);
      }
    }
    select_each(ctx, to);
  });
}

template <class I>
void count_keys(const Array& keys_N, std::int64_t num_keys, std::int64_t* counts) {
  const I* keys = keys_N.data<I>();
  const std::int64_t stride = keys_N.strides()[0];
  std::fill_n(counts, num_keys, std::int64_t{0});
  for (std::int64_t i = 0; i < keys_N.size(0); ++i) {
    const std::int64_t key = keys[i * stride];
    if (static_cast<std::uint64_t>(key) >= static_cast<std::uint64_t>(num_keys)) {
      throw Error(bad_key(key, i, num_keys));
    }
    ++counts[key];
  }
}

template <class I>
void place_keys(const Array& keys_N, std::int64_t* next, const Array& permutation_N) {
  const I* keys = keys_N.data<I>();
  const std::int64_t stride = keys_N.strides()[0];
  std::int64_t* to = permutation_N.data<std::int64_t>();
  const std::int64_t to_stride = permutation_N.strides()[0];
  for (std::int64_t i = 0; i < keys_N.size(0); ++i) to[next[keys[i * stride]]++ * to_stride] = i;
}

}  // namespace

void cpu::topk(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
               const Array& indices) {
  check_topk(x, dim, values, indices);
  select_lines(ctx, x, dim, order, {values, indices});
}

void cpu::sort(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
               const Array& indices) {
  check_sort(x, dim, values, indices);
  select_lines(ctx, x, dim, order, {values, indices});
}

void cpu::sort_by_key(KernelContext&, const Array& keys_N, std::int64_t num_keys,
                      const Array& permutation_N, const Array& counts_E) {
  check_sort_by_key(keys_N, num_keys, permutation_N, counts_E);
  const auto size = static_cast<std::size_t>(num_keys);
  const auto counts = std::make_unique_for_overwrite<std::int64_t[]>(size);
  const bool wide = keys_N.dtype() == DType::kI64;
  if (wide)
    count_keys<std::int64_t>(keys_N, num_keys, counts.get());
  else
    count_keys<std::int32_t>(keys_N, num_keys, counts.get());
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < size; ++e) {
    counts_E.data<std::int64_t>()[static_cast<std::int64_t>(e) * counts_E.strides()[0]] = counts[e];
    const std::int64_t count = counts[e];
    counts[e] = begin;
    begin += count;
  }
  if (wide)
    place_keys<std::int64_t>(keys_N, counts.get(), permutation_N);
  else
    place_keys<std::int32_t>(keys_N, counts.get(), permutation_N);
}

}  // namespace tessera::kernels
