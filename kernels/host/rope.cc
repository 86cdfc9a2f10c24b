#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/norm.h"
#include "kernels/norm_checks.h"
#include "kernels/parallel_loop.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

/// Turns the pairs of one line; x and out may be one.
template <class T, class C>
void turn_line(const T* x, const C* cos, const C* sin, std::int64_t pairs, T* out) {
#pragma omp simd
  for (std::int64_t i = 0; i < pairs; ++i) {
    const C a = convert<C>(x[2 * i]), b = convert<C>(x[2 * i + 1]);
    out[2 * i] = convert<T>(a * cos[i] - b * sin[i]);
    out[2 * i + 1] = convert<T>(a * sin[i] + b * cos[i]);
  }
}

/// x and out (..., L, H, E), tables contiguous (L, E/2).
struct RopeArrays {
  const Array& x;
  const Array& cos;
  const Array& sin;
  const Array& out;
};

template <class T>
void turn_all(int threads, const RopeArrays& arrays) {
  using C = ComputeType<T>;
  const Array &x = arrays.x, &out = arrays.out;
  const int last = x.ndim() - 1;
  const std::int64_t positions = x.size(last - 2), heads = x.size(last - 1), size = x.size(last);
  const auto row_strides = [&](const Array& a) {
    return without_dim(without_dim(a.strides(), last), last - 1);
  };
  const LineOffsets<2> rows(without_dim(without_dim(x.shape(), last), last - 1),
                            {row_strides(x), row_strides(out)});
  parallel_ranges(threads, rows.count(), 1, heads * size,
                  [&](std::int64_t begin, std::int64_t end) {
                    std::vector<T> in_line(size), out_line(size);
                    for (std::int64_t row = begin; row < end; ++row) {
                      const auto at = rows.at(row);
                      const C* cos = arrays.cos.data<C>() + row % positions * (size / 2);
                      const C* sin = arrays.sin.data<C>() + row % positions * (size / 2);
                      for (std::int64_t h = 0; h < heads; ++h) {
                        const T* from = x.data<T>() + at[0] + h * x.strides()[last - 1];
                        T* to = out.data<T>() + at[1] + h * out.strides()[last - 1];
                        T* const target = line_target(to, out.strides()[last], out_line.data());
                        turn_line(load_line(from, x.strides()[last], size, in_line.data()), cos,
                                  sin, size / 2, target);
                        store_line(target, size, to, out.strides()[last]);
                      }
                    }
                  });
}

Array read_table(KernelContext& ctx, const Array& table, DType dtype) {
  return contiguous(ctx, as_dtype(ctx, table, dtype));
}

Array read_sine(KernelContext& ctx, const Array& table, DType dtype, Rotation rotation) {
  const Array sine = read_table(ctx, table, dtype);
  if (rotation == Rotation::kForward) return sine;
  Array negated = Array::empty(sine.shape(), dtype, ctx.allocator);
  cpu::unary(ctx, Unary::kNeg, sine, negated);
  return negated;
}

}  // namespace

void cpu::rope(KernelContext& ctx, const Array& x, const Array& cos, const Array& sin,
               Rotation rotation, const Array& out) {
  check_rope(x, cos, sin, out);
  if (x.num_elements() == 0) return;
  const DType dtype = common_floating("rope", {x.dtype(), out.dtype()});
  common_floating("rope", {cos.dtype(), sin.dtype()});
  const StagedOutput staged(ctx, out, dtype);
  const Array in = as_dtype(ctx, x, dtype);
  const Array cosines = read_table(ctx, cos, line_dtype(dtype));
  const Array sines = read_sine(ctx, sin, line_dtype(dtype), rotation);
  visit_floating(dtype, [&](auto tag) {
    turn_all<typename decltype(tag)::type>(ctx.threads, {in, cosines, sines, staged.array()});
  });
  staged.finish(ctx);
}

}  // namespace tessera::kernels
