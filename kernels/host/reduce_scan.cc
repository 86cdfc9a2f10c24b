#include <vector>

#include "kernels/elementwise.h"
#include "kernels/extreme.h"
#include "kernels/host/dim_lines.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/parallel_loop.h"
#include "kernels/reduce.h"

namespace tessera::kernels {
namespace {

template <Extreme Which, class T>
std::int64_t first_extreme(const T* x, std::int64_t stride, std::int64_t n) {
  using C = ComputeType<T>;
  std::int64_t at = 0;
  C best = convert<C>(x[0]);
  for (std::int64_t i = 1; i < n; ++i) {
    const C value = convert<C>(x[i * stride]);
    if (beats<Which>(value, best)) {
      best = value;
      at = i;
    }
  }
  return at;
}

/// `out` as an array that has a dim of size 1 at `dim`.
Array with_dim(const Array& out, int dim, int ndim) {
  if (out.is_null() || out.ndim() == ndim) return out;
  Shape shape = out.shape();
  Shape strides = out.strides();
  shape.insert(shape.begin() + dim, 1);
  strides.insert(strides.begin() + dim, 1);
  return out.as_strided(shape, strides, out.offset());
}

template <class T>
double square_of(T value) {
  const double wide = convert<double>(value);
  return wide * wide;
}

template <class T>
double sum_of_squares_block(const T* x, std::int64_t n) {
  constexpr int kLanes = 32;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
#pragma omp simd
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += square_of(x[i + lane]);
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += square_of(x[i]);
  return sum;
}

}  // namespace

void cpu::arg_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim,
                      const Array& values, const Array& indices) {
  if (!check_arg_extreme(x, dim, values, indices)) return;
  const Array value_out = with_dim(values.is_null() ? Array() : values, dim, x.ndim());
  const Array index_out = with_dim(indices, dim, x.ndim());
  const bool wants_values = !values.is_null();
  const DimLines lines(dim, {&index_out, &x, wants_values ? &value_out : &index_out});
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = x.data<T>();
    lines.for_each(ctx.threads, [&](const Offsets& offsets) {
      const T* line = from + offsets[1];
      const std::int64_t at =
          which == Extreme::kMax ? first_extreme<Extreme::kMax>(line, lines.stride(1), x.size(dim))
                                 : first_extreme<Extreme::kMin>(line, lines.stride(1), x.size(dim));
      index_out.data<std::int64_t>()[offsets[0]] = at;
      if (wants_values) value_out.data<T>()[offsets[2]] = line[at * lines.stride(1)];
    });
  });
}

void cpu::sum_of_squares(KernelContext& ctx, const Array& x, const Array& out) {
  check_shape("sum_of_squares", "out", out, {});
  constexpr std::int64_t kBlock = 16384;
  const Array dense = contiguous(ctx, x);
  const std::int64_t count = dense.num_elements();
  const std::int64_t blocks = (count + kBlock - 1) / kBlock;
  std::vector<double> sums(static_cast<std::size_t>(blocks));
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    const T* from = dense.data<T>();
    parallel_ranges(ctx.threads, blocks, 1, kBlock, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        sums[static_cast<std::size_t>(b)] =
            sum_of_squares_block(from + b * kBlock, std::min(kBlock, count - b * kBlock));
      }
    });
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  *out.data<double>() = total;
}

}  // namespace tessera::kernels
