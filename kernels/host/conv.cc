#include "kernels/conv.h"

#include "kernels/conv_sizes.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
#include "kernels/parallel_tasks.h"

namespace tessera::kernels {
namespace {

/// Calls f(line of `columns`, first of a row of x, taps outside) for each channel, tap and output
/// row: `visit(line, x_row or null, tap_w)`.
template <class Visit>
void for_lines(const ConvSizes& sizes, const WindowPlane& window, const Visit& visit) {
  for (std::int64_t c = 0; c < sizes.in_channels; ++c) {
    for (std::int64_t i = 0; i < sizes.kernel_h; ++i) {
      for (std::int64_t j = 0; j < sizes.kernel_w; ++j) {
        const std::int64_t tap = (c * sizes.kernel_h + i) * sizes.kernel_w + j;
        for (std::int64_t oh = 0; oh < sizes.out_height; ++oh) {
          const std::int64_t row =
              window.h.begin(window.h.out_start + oh) + i * window.h.dilation - window.h.in_start;
          const bool inside = row >= 0 && row < sizes.height;
          visit(tap * sizes.pixels() + oh * sizes.out_width,
                inside ? c * sizes.plane() + row * sizes.width : -1, j);
        }
      }
    }
  }
}

/// The column of x that output column `ow` reads by tap j; outside [0, width) where it reads
/// padding.
std::int64_t column_of(const WindowDim& w, std::int64_t ow, std::int64_t j) {
  return w.begin(w.out_start + ow) + j * w.dilation - w.in_start;
}

/// columns (taps, pixels) = the windows of one group of one image.
template <class T>
void unfold(const ConvSizes& sizes, const WindowPlane& window, const T* x, T* columns) {
  for_lines(sizes, window, [&](std::int64_t line, std::int64_t row, std::int64_t j) {
    T* to = columns + line;
    for (std::int64_t ow = 0; ow < sizes.out_width; ++ow) {
      const std::int64_t at = column_of(window.w, ow, j);
      to[ow] = row >= 0 && at >= 0 && at < sizes.width ? x[row + at] : T(0.0F);
    }
  });
}

/// x += the windows, each element where it was taken from.
template <class T>
void fold(const ConvSizes& sizes, const WindowPlane& window, const T* columns, T* x) {
  for_lines(sizes, window, [&](std::int64_t line, std::int64_t row, std::int64_t j) {
    if (row < 0) return;
    const T* from = columns + line;
    for (std::int64_t ow = 0; ow < sizes.out_width; ++ow) {
      const std::int64_t at = column_of(window.w, ow, j);
      if (at >= 0 && at < sizes.width) x[row + at] += from[ow];
    }
  });
}

/// Matrix (rows, columns) at `offset` elements into a contiguous array.
Array matrix(const Array& array, std::int64_t offset, std::int64_t rows, std::int64_t columns) {
  return array.as_strided({rows, columns}, {columns, 1}, array.offset() + offset);
}

DType sum_type(DType dtype) { return accumulation_type(dtype); }

/// f(image, group) for all pairs; the pieces share `ctx`.
template <class F>
void for_images(const ConvSizes& sizes, const F& f) {
  for (std::int64_t n = 0; n < sizes.batch; ++n) {
    for (std::int64_t g = 0; g < sizes.groups; ++g) f(n, g);
  }
}

template <class F>
void visit_floating(DType dtype, const F& f) {
  visit_dtype(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<ComputeType<typename decltype(tag)::type>>) f(tag);
  });
}

Array unfold_image(KernelContext& ctx, const ConvSizes& sizes, const WindowPlane& window,
                   const Array& x, std::int64_t image) {
  const Array columns = Array::empty({sizes.taps(), sizes.pixels()}, x.dtype(), ctx.allocator);
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t offset = image * sizes.in_channels * sizes.plane();
    unfold(sizes, window, x.data<T>() + offset, columns.data<T>());
  });
  return columns;
}

}  // namespace

void cpu::conv2d(KernelContext& ctx, const Array& x, const Array& weight, const WindowPlane& window,
                 const Array& out) {
  const ConvSizes sizes("conv2d", x, weight, out);
  if (out.num_elements() == 0) return;
  if (sizes.taps() == 0) return cpu::fill(ctx, 0.0, out);
  const Array dense = contiguous(ctx, x), kernel = contiguous(ctx, weight);
  const Array result =
      out.is_contiguous() ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
  for_images(sizes, [&](std::int64_t n, std::int64_t g) {
    const std::int64_t image = n * sizes.groups + g;
    cpu::matmul(
        ctx,
        matrix(kernel, g * sizes.out_channels * sizes.taps(), sizes.out_channels, sizes.taps()),
        unfold_image(ctx, sizes, window, dense, image),
        matrix(result, image * sizes.out_channels * sizes.pixels(), sizes.out_channels,
               sizes.pixels()));
  });
  if (!out.is_contiguous()) cpu::copy(ctx, result, out);
}

void cpu::conv2d_input_grad(KernelContext& ctx, const Array& grad, const Array& weight,
                            const WindowPlane& window, const Array& grad_x) {
  const ConvSizes sizes("conv2d_input_grad", grad_x, weight, grad);
  if (grad_x.num_elements() == 0) return;
  const DType type = sum_type(grad.dtype());
  const Array sum = Array::zeros(grad_x.shape(), type, ctx.allocator);
  if (sizes.out_channels > 0 && sizes.pixels() > 0) {
    const Array dense = contiguous(ctx, grad), kernel = contiguous(ctx, weight);
    const Array columns = Array::empty({sizes.taps(), sizes.pixels()}, type, ctx.allocator);
    for_images(sizes, [&](std::int64_t n, std::int64_t g) {
      const std::int64_t image = n * sizes.groups + g;
      const Array own =
          matrix(kernel, g * sizes.out_channels * sizes.taps(), sizes.out_channels, sizes.taps());
      cpu::matmul(ctx, own.transpose(0, 1),
                  matrix(dense, image * sizes.out_channels * sizes.pixels(), sizes.out_channels,
                         sizes.pixels()),
                  columns);
      const std::int64_t offset = image * sizes.in_channels * sizes.plane();
      visit_floating(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_floating_point_v<T>) {
          fold(sizes, window, columns.data<T>(), sum.data<T>() + offset);
        }
      });
    });
  }
  cpu::copy(ctx, sum, grad_x);
}

void cpu::conv2d_weight_grad(KernelContext& ctx, const Array& grad, const Array& x,
                             const WindowPlane& window, const Array& grad_weight) {
  const ConvSizes sizes("conv2d_weight_grad", x, grad_weight, grad);
  if (grad_weight.num_elements() == 0) return;
  const DType type = sum_type(grad.dtype());
  const Array sum = Array::zeros(grad_weight.shape(), type, ctx.allocator);
  if (sizes.pixels() > 0) {
    const Array dense = contiguous(ctx, x), grads = contiguous(ctx, grad);
    const Array own = Array::empty({sizes.out_channels, sizes.taps()}, type, ctx.allocator);
    for_images(sizes, [&](std::int64_t n, std::int64_t g) {
      const std::int64_t image = n * sizes.groups + g;
      const Array columns = unfold_image(ctx, sizes, window, dense, image);
      cpu::matmul(ctx,
                  matrix(grads, image * sizes.out_channels * sizes.pixels(), sizes.out_channels,
                         sizes.pixels()),
                  columns.transpose(0, 1), own);
      const Array total =
          matrix(sum, g * sizes.out_channels * sizes.taps(), sizes.out_channels, sizes.taps());
      cpu::binary(ctx, Binary::kAdd, total, own, total);
    });
  }
  cpu::copy(ctx, sum, grad_weight);
}

}  // namespace tessera::kernels
