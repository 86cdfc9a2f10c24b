// One element of each row by its rank: rows are sorted, and the element picked from them.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/segments.h"
#include "kernels/elementwise.h"
#include "kernels/row_ranks.h"
#include "kernels/select_keys.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// The first k of each row of x in ascending order, and where they stood.
struct SortedRows {
  Array values, indices;
};
SortedRows sorted_rows(KernelContext& ctx, const Array& x, std::int64_t k) {
  const int last = x.ndim() - 1;
  Shape shape = x.shape();
  shape.back() = k;
  const SortedRows rows{Array::empty(shape, x.dtype(), ctx.allocator),
                        Array::empty(shape, DType::kI64, ctx.allocator)};
  TSR_CUDA::topk(ctx, x, last, Order::kAscending, rows.values, rows.indices);
  return rows;
}

/// Operands: values, indices, sorted values, sorted indices.
template <class S>
__device__ void pick(const S& row, std::int64_t rank) {
  copy_element(row.layout.operands[0], row.offsets[0], row.layout.operands[2],
               row.offsets[2] + rank * row.steps[2]);
  row.set(1, 0, row.template get<std::int64_t>(3, rank));
}

/// A thread a row. Value: that in which its elements are compared.
template <class Value>
struct PickMedian {
  NanRows nan;
  template <class S>
  __device__ void operator()(const S& row) const {
    std::int64_t numbers = 0, end = row.n;  // NaN stand last
    while (numbers < end) {
      const std::int64_t middle = (numbers + end) / 2;
      const auto value = row.template get<Value>(2, middle);
      if (value == value) {
        numbers = middle + 1;
      } else {
        end = middle;
      }
    }
    pick(row, median_rank(nan, numbers, row.n));
  }
};

/// The end of the first of the longest runs of equal keys. A warp a row.
template <class Value>
struct PickMode {
  struct Longest {
    std::int64_t size, end;
  };
  __device__ void operator()(const Lines<4>& row) const {
    Longest longest{0, 0};
    std::int64_t begin = 0;  // of the run that goes on
    for (std::int64_t base = 0; base < row.n; base += kLanes) {
      const std::int64_t i = base + row.lane;
      std::int64_t start = i < row.n && is_start(row, i) ? i : begin;
      for (int step = 1; step < kLanes; step *= 2) {
        const std::int64_t before = from_before(start, step);
        if (row.lane >= step && before > start) start = before;
      }
      const bool ends = i < row.n && (i + 1 == row.n || is_start(row, i + 1));
      if (ends && i + 1 - start > longest.size) longest = {i + 1 - start, i};
      begin = from_thread<kLanes>(start, kLanes - 1);
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      const Longest other = from_across(longest, step);
      const bool is_first = other.size == longest.size && other.end < longest.end;
      if (other.size > longest.size || is_first) longest = other;
    }
    if (row.lane == 0) pick(row, longest.end);
  }
  static __device__ bool is_start(const Lines<4>& row, std::int64_t i) {
    return i == 0 || ordered_key(row.get<Value>(2, i)) != ordered_key(row.get<Value>(2, i - 1));
  }
};

}  // namespace

void kth_value(KernelContext& ctx, const Array& x, std::int64_t k, const Array& values,
               const Array& indices) {
  const int last = x.ndim() - 1;
  check_row_select(without_dim(x.shape(), last), values, indices);
  if (values.num_elements() == 0) return;
  const SortedRows rows = sorted_rows(ctx, x, k);
  const auto last_of = [&](const Array& sorted) {
    return first_elements(ctx, sorted.slice(last, k - 1, k), last);
  };
  copy(ctx, last_of(rows.values), values);
  copy(ctx, last_of(rows.indices), indices);
}

void median(KernelContext& ctx, NanRows nan, const Array& x, const Array& values,
            const Array& indices) {
  const int last = x.ndim() - 1;
  check_row_select(without_dim(x.shape(), last), values, indices);
  if (values.num_elements() == 0) return;
  const SortedRows rows = sorted_rows(ctx, x, x.size(last));
  visit_compute_type(x.dtype(), [&]<class Value>(TypeTag<Value>) {
    run_line_layouts<4>(
        ctx, "median", {{{values}, {indices}, {rows.values, last}, {rows.indices, last}}},
        [&](const auto& layout, const auto& steps, std::int64_t n) {
          return launch_segments<1>(ctx, layout, steps, n, Cut{n, 1}, PickMedian<Value>{nan});
        });
  });
}

void mode(KernelContext& ctx, const Array& x, const Array& values, const Array& indices) {
  const int last = x.ndim() - 1;
  check_row_select(without_dim(x.shape(), last), values, indices);
  if (values.num_elements() == 0) return;
  const SortedRows rows = sorted_rows(ctx, x, x.size(last));
  visit_compute_type(x.dtype(), [&]<class Value>(TypeTag<Value>) {
    run_lines<4>(ctx, "mode", {{{values}, {indices}, {rows.values, last}, {rows.indices, last}}},
                 PickMode<Value>{});
  });
}

}  // namespace tessera::kernels::TSR_CUDA
