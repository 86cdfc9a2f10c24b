#include "kernels/pool.h"

#include <limits>
#include <vector>

#include "kernels/dtype_switch.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_tasks.h"
#include "kernels/pool_windows.h"

namespace tessera::kernels {
namespace {

/// f(plane, oh, ow, rows, columns) for the windows of one plane.
template <class F>
void for_windows(const PoolSizes& sizes, const WindowPlane& window, const F& f) {
  for (std::int64_t oh = 0; oh < sizes.out_height; ++oh) {
    const Taps rows = taps_of(window.h, oh, sizes.height);
    for (std::int64_t ow = 0; ow < sizes.out_width; ++ow) {
      f(oh, ow, rows, taps_of(window.w, ow, sizes.width));
    }
  }
}

int threads_for(KernelContext& ctx, const PoolSizes& sizes, const WindowPlane& window) {
  return product_threads(ctx.threads,
                         {sizes.planes, sizes.out_plane(), window.h.kernel, window.w.kernel});
}

}  // namespace

void cpu::max_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Array& out,
                   const Array& indices) {
  const PoolSizes sizes("max_pool", x, out);
  const Array dense = contiguous(ctx, x), result = result_like(ctx, out);
  const Array places = indices.is_null() ? Array() : result_like(ctx, indices);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    parallel_tasks(threads_for(ctx, sizes, window), sizes.planes, [&](std::int64_t plane) {
      const T* from = dense.data<T>() + plane * sizes.plane();
      for_windows(sizes, window,
                  [&](std::int64_t oh, std::int64_t ow, const Taps& rows, const Taps& columns) {
                    const std::int64_t at = largest<C>(from, sizes.width, rows, columns);
                    const std::int64_t to = plane * sizes.out_plane() + oh * sizes.out_width + ow;
                    result.data<T>()[to] =
                        at < 0 ? convert<T>(-std::numeric_limits<C>::infinity()) : from[at];
                    if (places.is_null()) return;
                    places.data<std::int64_t>()[to] = place_in_whole(at, sizes.width, window);
                  });
    });
  });
  if (!out.is_contiguous()) cpu::copy(ctx, result, out);
  if (!indices.is_null() && !indices.is_contiguous()) cpu::copy(ctx, places, indices);
}

void cpu::max_pool_grad(KernelContext& ctx, const Array& grad, const Array& x,
                        const WindowPlane& window, const Array& grad_x) {
  const PoolSizes sizes("max_pool_grad", x, grad);
  const Array dense = contiguous(ctx, x), grads = contiguous(ctx, grad);
  const Array result = result_like(ctx, grad_x);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    parallel_tasks(threads_for(ctx, sizes, window), sizes.planes, [&](std::int64_t plane) {
      std::vector<C> sum(static_cast<std::size_t>(sizes.plane()), C(0));
      const T* from = dense.data<T>() + plane * sizes.plane();
      const T* given = grads.data<T>() + plane * sizes.out_plane();
      for_windows(sizes, window,
                  [&](std::int64_t oh, std::int64_t ow, const Taps& rows, const Taps& columns) {
                    const std::int64_t at = largest<C>(from, sizes.width, rows, columns);
                    if (at < 0) return;
                    sum[static_cast<std::size_t>(at)] +=
                        convert<C>(given[oh * sizes.out_width + ow]);
                  });
      T* to = result.data<T>() + plane * sizes.plane();
      for (std::size_t i = 0; i < sum.size(); ++i) to[i] = convert<T>(sum[i]);
    });
  });
  if (!grad_x.is_contiguous()) cpu::copy(ctx, result, grad_x);
}

void cpu::avg_pool(KernelContext& ctx, const Array& x, const WindowPlane& window,
                   const Divisor& divisor, const Array& out) {
  const PoolSizes sizes("avg_pool", x, out);
  const Array dense = contiguous(ctx, x), result = result_like(ctx, out);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    parallel_tasks(threads_for(ctx, sizes, window), sizes.planes, [&](std::int64_t plane) {
      const T* from = dense.data<T>() + plane * sizes.plane();
      T* to = result.data<T>() + plane * sizes.out_plane();
      for_windows(sizes, window,
                  [&](std::int64_t oh, std::int64_t ow, const Taps& rows, const Taps& columns) {
                    C sum = 0;
                    for (std::int64_t i = rows.start; i < rows.stop; i += rows.step) {
                      for (std::int64_t j = columns.start; j < columns.stop; j += columns.step) {
                        sum += convert<C>(from[i * sizes.width + j]);
                      }
                    }
                    const double by = divided_by(window, oh, ow, divisor);
                    to[oh * sizes.out_width + ow] = convert<T>(sum / static_cast<C>(by));
                  });
    });
  });
  if (!out.is_contiguous()) cpu::copy(ctx, result, out);
}

void cpu::avg_pool_grad(KernelContext& ctx, const Array& grad, const WindowPlane& window,
                        const Divisor& divisor, const Array& grad_x) {
  const PoolSizes sizes("avg_pool_grad", grad_x, grad);
  const Array grads = contiguous(ctx, grad), result = result_like(ctx, grad_x);
  visit_floating(grad.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    parallel_tasks(threads_for(ctx, sizes, window), sizes.planes, [&](std::int64_t plane) {
      std::vector<C> sum(static_cast<std::size_t>(sizes.plane()), C(0));
      const T* given = grads.data<T>() + plane * sizes.out_plane();
      for_windows(sizes, window,
                  [&](std::int64_t oh, std::int64_t ow, const Taps& rows, const Taps& columns) {
                    const double by = divided_by(window, oh, ow, divisor);
                    const C share =
                        convert<C>(given[oh * sizes.out_width + ow]) / static_cast<C>(by);
                    for (std::int64_t i = rows.start; i < rows.stop; i += rows.step) {
                      for (std::int64_t j = columns.start; j < columns.stop; j += columns.step) {
                        sum[static_cast<std::size_t>(i * sizes.width + j)] += share;
                      }
                    }
                  });
      T* to = result.data<T>() + plane * sizes.plane();
      for (std::size_t i = 0; i < sum.size(); ++i) to[i] = convert<T>(sum[i]);
    });
  });
  if (!grad_x.is_contiguous()) cpu::copy(ctx, result, grad_x);
}

}  // namespace tessera::kernels
