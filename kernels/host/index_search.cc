#include "kernels/index_search.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index_checks.h"
#include "kernels/index_functions.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {
namespace {

template <class C>
std::int64_t place(const C* line, std::int64_t size, C value, Side side) {
  const C* found = side == Side::kLeft ? std::lower_bound(line, line + size, value, is_less<C>)
                                       : std::upper_bound(line, line + size, value, is_less<C>);
  return found - line;
}

Array dense_as(KernelContext& ctx, const Array& x, DType dtype) {
  if (x.dtype() == dtype && x.is_contiguous()) return x;
  Array dense = Array::empty(x.shape(), dtype, ctx.allocator);
  cpu::copy(ctx, x, dense);
  return dense;
}

}  // namespace

void cpu::searchsorted(KernelContext& ctx, const Array& sorted, const Array& values, Side side,
                       const Array& out) {
  check_searchsorted(sorted, values, out);
  const bool one_line = sorted.ndim() == 1;
  const DType common = promote(sorted.dtype(), values.dtype());
  const DType compute = is_half(common) ? DType::kF32 : common;
  const Array lines = dense_as(ctx, sorted, compute);
  const Array points = dense_as(ctx, values, compute);
  const Array places = Array::empty(values.shape(), DType::kI64, ctx.allocator);
  const std::int64_t size = sorted.size(sorted.ndim() - 1);
  const std::int64_t each = one_line ? 0 : values.size(values.ndim() - 1);
  auto* to = places.data<std::int64_t>();
  visit_dtype(compute, [&]<class T>(TypeTag<T>) {
    if constexpr (!kIsHalf<T>) {
      const T* line = lines.data<T>();
      const T* point = points.data<T>();
      parallel_ranges(ctx.threads, values.num_elements(), 1, 16,
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t i = begin; i < end; ++i) {
                          const T* own = one_line ? line : line + i / each * size;
                          to[i] = place<T>(own, size, point[i], side);
                        }
                      });
    }
  });
  cpu::copy(ctx, places, out);
}

void cpu::bincount(KernelContext& ctx, const Array& x, const Array& weights, Absent absent,
                   const Array& out) {
  check_index(x, {"bincount", out.size(0), absent});
  const Array places = dense_as(ctx, x, DType::kI64);
  const bool weighted = !weights.is_null();
  if (weighted) require_shape("bincount", "weights", weights, x.shape());
  const DType sum_type = weighted ? accumulation_type(weights.dtype()) : DType::kI64;
  const Array sums = Array::empty(out.shape(), sum_type, ctx.allocator);
  cpu::fill(ctx, 0.0, sums);
  const Array terms = weighted ? dense_as(ctx, weights, sum_type) : Array();
  const auto* place = places.data<std::int64_t>();
  visit_dtype(sum_type, [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float> ||
                  std::is_same_v<T, std::int64_t>) {
      T* to = sums.data<T>();
      for (std::int64_t i = 0; i < x.num_elements(); ++i) {
        if (place[i] >= 0) to[place[i]] += weighted ? terms.data<T>()[i] : T{1};
      }
    }
  });
  cpu::copy(ctx, sums, out);
}

std::vector<std::int64_t> cpu::nonzero_positions(KernelContext& ctx, const Array& x) {
  const Array dense = contiguous(ctx, x);
  std::vector<std::int64_t> positions;
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = dense.data<T>();
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      if (convert<bool>(from[i])) positions.push_back(i);
    }
  });
  return positions;
}

}  // namespace tessera::kernels
