#include <cmath>

#include "kernels/host/exp_line.h"
#include "kernels/host/simd.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/norm.h"
#include "kernels/norm_checks.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

template <class C>
void softmax_line(const C* x, std::int64_t n, C* out) {
  exp_line(x, n, max_of(x, n), out);
  const C scale = C(1) / sum_of(out, n);
  for (std::int64_t i = 0; i < n; ++i) out[i] *= scale;
}

template <class C>
void log_softmax_line(const C* x, std::int64_t n, C* out) {
  const C max = max_of(x, n);
  exp_line(x, n, max, out);
  const C log_sum = std::log(sum_of(out, n));
  // In this order: the logarithm would be lost beside a large maximum.
  for (std::int64_t i = 0; i < n; ++i) out[i] = (x[i] - max) - log_sum;
}

template <class C>
void softmax_grad_line(const C* grad, const C* out, std::int64_t n, C* grad_x) {
  const C inner = dot_of(grad, out, n);
  for (std::int64_t i = 0; i < n; ++i) grad_x[i] = out[i] * (grad[i] - inner);
}

/// The lines of x and out along `dim`, each given to a function of (line of x, length, line of
/// out).
struct LineMap {
  const Array& x;
  const Array& out;
  int dim;

  template <class T, class LineFunction>
  void run(int threads, const LineFunction& function) const {
    using C = ComputeType<T>;
    const std::int64_t n = x.size(dim);
    const std::int64_t x_step = x.strides()[dim], out_step = out.strides()[dim];
    const LineOffsets<2> lines(without_dim(x.shape(), dim),
                               {without_dim(x.strides(), dim), without_dim(out.strides(), dim)});
    parallel_ranges(threads, lines.count(), 1, 8 * n, [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> x_buffer(n), out_buffer(n);
      for (std::int64_t line = begin; line < end; ++line) {
        const auto at = lines.at(line);
        T* const target = out.data<T>() + at[1];
        C* const result = line_target(target, out_step, out_buffer.data());
        function(load_line(x.data<T>() + at[0], x_step, n, x_buffer.data()), n, result);
        store_line(result, n, target, out_step);
      }
    });
  }
};

}  // namespace

void cpu::softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  const int along = checked_dim("softmax", dim, x, out);
  if (out.num_elements() == 0) return;
  const DType dtype = common_floating("softmax", {x.dtype(), out.dtype()});
  const StagedOutput staged(ctx, out, dtype);
  const Array in = as_dtype(ctx, x, dtype);
  visit_floating(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    LineMap{in, staged.array(), along}.run<T>(ctx.threads, softmax_line<ComputeType<T>>);
  });
  staged.finish(ctx);
}

void cpu::log_softmax(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  const int along = checked_dim("log_softmax", dim, x, out);
  if (out.num_elements() == 0) return;
  const DType dtype = common_floating("log_softmax", {x.dtype(), out.dtype()});
  const StagedOutput staged(ctx, out, dtype);
  const Array in = as_dtype(ctx, x, dtype);
  visit_floating(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    LineMap{in, staged.array(), along}.run<T>(ctx.threads, log_softmax_line<ComputeType<T>>);
  });
  staged.finish(ctx);
}

void cpu::softmax_grad(KernelContext& ctx, const Array& grad, const Array& out, int dim,
                       const Array& grad_x) {
  check_shape("softmax_grad", "grad", grad, out.shape());
  const int along = checked_dim("softmax_grad", dim, out, grad_x);
  if (grad_x.num_elements() == 0) return;
  const DType dtype = common_floating("softmax_grad", {grad.dtype(), out.dtype(), grad_x.dtype()});
  const StagedOutput staged(ctx, grad_x, dtype);
  const Array g = as_dtype(ctx, grad, dtype), y = as_dtype(ctx, out, dtype);
  const Array& result = staged.array();
  const std::int64_t n = y.size(along);
  const LineOffsets<3> lines(without_dim(y.shape(), along),
                             {without_dim(g.strides(), along), without_dim(y.strides(), along),
                              without_dim(result.strides(), along)});
  visit_floating(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    parallel_ranges(
        ctx.threads, lines.count(), 1, 4 * n, [&](std::int64_t begin, std::int64_t end) {
          std::vector<C> g_buffer(n), y_buffer(n), x_buffer(n);
          for (std::int64_t line = begin; line < end; ++line) {
            const auto at = lines.at(line);
            T* const target = result.data<T>() + at[2];
            C* const x = line_target(target, result.strides()[along], x_buffer.data());
            softmax_grad_line(
                load_line(g.data<T>() + at[0], g.strides()[along], n, g_buffer.data()),
                load_line(y.data<T>() + at[1], y.strides()[along], n, y_buffer.data()), n, x);
            store_line(x, n, target, result.strides()[along]);
          }
        });
  });
  staged.finish(ctx);
}

}  // namespace tessera::kernels
