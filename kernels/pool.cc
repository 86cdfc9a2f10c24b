#include "kernels/pool.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_tasks.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

/// Planes of the input and output sides, contiguous.
struct PoolSizes {
  std::int64_t planes = 1, height, width, out_height, out_width;

  PoolSizes(const char* op, const Array& x, const Array& out) {
    bool fits = x.ndim() >= 2 && x.ndim() == out.ndim() && is_floating(x.dtype()) &&
                x.dtype() == out.dtype();
    for (int d = 0; fits && d + 2 < x.ndim(); ++d) {
      fits = x.size(d) == out.size(d);
      planes *= x.size(d);
    }
    if (!fits) {
      throw Error(invalid_argument(absl::StrFormat(
          "%s: %s %s and %s %s; wanted [..., H, W] and [..., OH, OW] of one floating dtype", op,
          name_of(x.dtype()), to_string(x.shape()), name_of(out.dtype()), to_string(out.shape()))));
    }
    height = x.size(x.ndim() - 2);
    width = x.size(x.ndim() - 1);
    out_height = out.size(out.ndim() - 2);
    out_width = out.size(out.ndim() - 1);
  }
  std::int64_t plane() const { return height * width; }
  std::int64_t out_plane() const { return out_height * out_width; }
};

/// Local positions that local output `o` reads: [first, last] in steps.
struct Taps {
  std::int64_t start, stop, step;
};
Taps taps_of(const WindowDim& dim, std::int64_t o, std::int64_t held) {
  const std::int64_t out = dim.out_start + o;
  const std::int64_t begin = dim.begin(out) - dim.in_start;
  const std::int64_t step = dim.dilation;
  const std::int64_t skipped = begin < 0 ? (-begin + step - 1) / step : 0;
  return {begin + skipped * step, std::min(begin + dim.count(out) * step, held), step};
}

/// Elements of a window along one dim by which its sum is divided.
std::int64_t divided(const WindowDim& dim, std::int64_t o, Divisor::Kind kind) {
  const std::int64_t out = dim.out_start + o;
  const std::int64_t begin = dim.begin(out);
  if (kind == Divisor::Kind::kPadded) {
    return std::min(begin + dim.count(out), dim.size + dim.padding) - begin;
  }
  return std::min(begin + dim.count(out), dim.size) - std::max<std::int64_t>(begin, 0);
}

template <class F>
void visit_floating(DType dtype, const F& f) {
  visit_dtype(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<ComputeType<typename decltype(tag)::type>>) f(tag);
  });
}

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

/// The place of the largest element of a window in its plane, or −1 for a window of none. NaN
/// counts as it, and the last of several wins, as torch has it.
template <class C, class T>
std::int64_t largest(const T* plane, std::int64_t width, const Taps& rows, const Taps& columns) {
  std::int64_t at = -1;
  C most = -std::numeric_limits<C>::infinity();
  for (std::int64_t i = rows.start; i < rows.stop; i += rows.step) {
    for (std::int64_t j = columns.start; j < columns.stop; j += columns.step) {
      const C value = convert<C>(plane[i * width + j]);
      if (at < 0 || value > most || std::isnan(value)) {
        at = i * width + j;
        most = value;
      }
    }
  }
  return at;
}

int threads_for(KernelContext& ctx, const PoolSizes& sizes, const WindowPlane& window) {
  return product_threads(ctx.threads,
                         {sizes.planes, sizes.out_plane(), window.h.kernel, window.w.kernel});
}

Array result_like(KernelContext& ctx, const Array& out) {
  return out.is_contiguous() ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
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
                    const std::int64_t row = at < 0 ? 0 : at / sizes.width + window.h.in_start;
                    const std::int64_t column = at < 0 ? 0 : at % sizes.width + window.w.in_start;
                    places.data<std::int64_t>()[to] = row * window.w.size + column;
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
                    const double by =
                        divisor.kind == Divisor::Kind::kFixed
                            ? divisor.value
                            : static_cast<double>(divided(window.h, oh, divisor.kind) *
                                                  divided(window.w, ow, divisor.kind));
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
      for_windows(
          sizes, window,
          [&](std::int64_t oh, std::int64_t ow, const Taps& rows, const Taps& columns) {
            const double by = divisor.kind == Divisor::Kind::kFixed
                                  ? divisor.value
                                  : static_cast<double>(divided(window.h, oh, divisor.kind) *
                                                        divided(window.w, ow, divisor.kind));
            const C share = convert<C>(given[oh * sizes.out_width + ow]) / static_cast<C>(by);
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
