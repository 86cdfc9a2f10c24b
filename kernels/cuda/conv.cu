// Convolutions without unfolded windows: a thread sums an element of the result, or of the input's
// gradient, over its taps; a warp sums an element of the weight's gradient over pixels.
#include <algorithm>

#include "kernels/conv.h"
#include "kernels/conv_sizes.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// An array of four dims.
template <class T>
struct Planes {
  T* data;
  std::int64_t strides[4];

  explicit Planes(const Array& array) : data(reinterpret_cast<T*>(array.bytes())) {
    std::copy_n(array.strides().data(), 4, strides);
  }
  __device__ T& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

/// Element i, row-major, of an array (.., b, c, d).
struct Coords {
  std::int64_t a, b, c, d;
};
__device__ inline Coords coords_of(std::int64_t i, std::int64_t size_b, std::int64_t size_c,
                                   std::int64_t size_d) {
  const std::int64_t of_c = i / size_d, of_b = of_c / size_c;
  return {of_b / size_b, of_b % size_b, of_c % size_c, i % size_d};
}

/// The position of a rank's part that its output `out` reads by tap `tap`; perhaps outside.
__device__ inline std::int64_t position_of(const WindowDim& dim, std::int64_t out,
                                           std::int64_t tap) {
  return dim.begin(dim.out_start + out) + tap * dim.dilation - dim.in_start;
}

/// Outputs [first, last) of a rank's part among which are all that read `position` by `tap`.
struct Outputs {
  std::int64_t first, last;
};
__device__ inline Outputs outputs_reading(const WindowDim& dim, std::int64_t position,
                                          std::int64_t tap, std::int64_t num_outputs) {
  if (dim.kind != WindowDim::Kind::kStrided || dim.stride < 1) return {0, num_outputs};
  const std::int64_t reach = position + dim.in_start + dim.padding - tap * dim.dilation;
  const std::int64_t out = reach / dim.stride - dim.out_start;
  const bool is_held = reach % dim.stride == 0 && out >= 0 && out < num_outputs;
  return is_held ? Outputs{out, out + 1} : Outputs{0, 0};
}

/// x's element that an output reads by a tap; 0 in the padding.
template <class C, class T>
__device__ C read_window(const ConvSizes& sizes, const WindowPlane& window, const Planes<T>& x,
                         std::int64_t image, std::int64_t channel, const Coords& out,
                         std::int64_t tap_h, std::int64_t tap_w) {
  const std::int64_t row = position_of(window.h, out.c, tap_h);
  const std::int64_t col = position_of(window.w, out.d, tap_w);
  const bool is_inside = row >= 0 && row < sizes.height && col >= 0 && col < sizes.width;
  return is_inside ? convert<C>(x.at(image, channel, row, col)) : C{0};
}

template <class T>
__global__ void convolve(ConvSizes sizes, WindowPlane window, Planes<const T> x,
                         Planes<const T> weight, Planes<T> out, std::int64_t total) {
  using C = ComputeType<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < total; i += step) {
    const Coords at =
        coords_of(i, sizes.groups * sizes.out_channels, sizes.out_height, sizes.out_width);
    const std::int64_t first = at.b / sizes.out_channels * sizes.in_channels;
    C sum{0};
    for (std::int64_t c = 0; c < sizes.in_channels; ++c) {
      for (std::int64_t h = 0; h < sizes.kernel_h; ++h) {
        for (std::int64_t w = 0; w < sizes.kernel_w; ++w) {
          sum += convert<C>(weight.at(at.b, c, h, w)) *
                 read_window<C>(sizes, window, x, at.a, first + c, at, h, w);
        }
      }
    }
    out.at(at.a, at.b, at.c, at.d) = convert<T>(sum);
  }
}

/// What one output adds to an element of the input's gradient by a tap, over channels.
template <class C, class T>
__device__ C sum_channels(const ConvSizes& sizes, const Planes<const T>& grad,
                          const Planes<const T>& weight, const Coords& in, std::int64_t tap_h,
                          std::int64_t tap_w, std::int64_t out_h, std::int64_t out_w) {
  const std::int64_t group = in.b / sizes.in_channels, channel = in.b % sizes.in_channels;
  C sum{0};
  for (std::int64_t o = 0; o < sizes.out_channels; ++o) {
    const std::int64_t out = group * sizes.out_channels + o;
    sum += convert<C>(weight.at(out, channel, tap_h, tap_w)) *
           convert<C>(grad.at(in.a, out, out_h, out_w));
  }
  return sum;
}

template <class T>
__global__ void gather_input_grad(ConvSizes sizes, WindowPlane window, Planes<const T> grad,
                                  Planes<const T> weight, Planes<T> grad_x, std::int64_t total) {
  using C = ComputeType<T>;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < total; i += step) {
    const Coords at = coords_of(i, sizes.groups * sizes.in_channels, sizes.height, sizes.width);
    C sum{0};
    for (std::int64_t h = 0; h < sizes.kernel_h; ++h) {
      const Outputs rows = outputs_reading(window.h, at.c, h, sizes.out_height);
      for (std::int64_t oh = rows.first; oh < rows.last; ++oh) {
        if (position_of(window.h, oh, h) != at.c) continue;
        for (std::int64_t w = 0; w < sizes.kernel_w; ++w) {
          const Outputs cols = outputs_reading(window.w, at.d, w, sizes.out_width);
          for (std::int64_t ow = cols.first; ow < cols.last; ++ow) {
            if (position_of(window.w, ow, w) != at.d) continue;
            sum += sum_channels<C>(sizes, grad, weight, at, h, w, oh, ow);
          }
        }
      }
    }
    grad_x.at(at.a, at.b, at.c, at.d) = convert<T>(sum);
  }
}

template <class T>
__global__ void sum_weight_grad(ConvSizes sizes, WindowPlane window, Planes<const T> grad,
                                Planes<const T> x, Planes<T> grad_weight, std::int64_t total) {
  using C = ComputeType<T>;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; i < total; i += warps) {
    const Coords at = coords_of(i, sizes.in_channels, sizes.kernel_h, sizes.kernel_w);
    const std::int64_t channel = at.a / sizes.out_channels * sizes.in_channels + at.b;
    C sum{0};
    for (std::int64_t p = threadIdx.x % kLanes; p < sizes.batch * sizes.pixels(); p += kLanes) {
      const Coords out = coords_of(p, 1, sizes.out_height, sizes.out_width);
      sum += convert<C>(grad.at(out.a, at.a, out.c, out.d)) *
             read_window<C>(sizes, window, x, out.a, channel, out, at.c, at.d);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % kLanes == 0) grad_weight.at(at.a, at.b, at.c, at.d) = convert<T>(sum);
  }
}

}  // namespace

void conv2d(KernelContext& ctx, const Array& x, const Array& weight, const WindowPlane& window,
            const Array& out) {
  const ConvSizes sizes("conv2d", x, weight, out);
  const std::int64_t total = out.num_elements();
  if (total == 0) return;
  const Current current(*ctx.device);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    check(launch<convolve<T>>(grid_for(total), stream_of(ctx), sizes, window, Planes<const T>(x),
                              Planes<const T>(weight), Planes<T>(out), total),
          *ctx.device, "conv2d");
  });
}

void conv2d_input_grad(KernelContext& ctx, const Array& grad, const Array& weight,
                       const WindowPlane& window, const Array& grad_x) {
  const ConvSizes sizes("conv2d_input_grad", grad_x, weight, grad);
  const std::int64_t total = grad_x.num_elements();
  if (total == 0) return;
  const Current current(*ctx.device);
  visit_floating(grad.dtype(), [&]<class T>(TypeTag<T>) {
    check(launch<gather_input_grad<T>>(grid_for(total), stream_of(ctx), sizes, window,
                                       Planes<const T>(grad), Planes<const T>(weight),
                                       Planes<T>(grad_x), total),
          *ctx.device, "conv2d_input_grad");
  });
}

void conv2d_weight_grad(KernelContext& ctx, const Array& grad, const Array& x,
                        const WindowPlane& window, const Array& grad_weight) {
  const ConvSizes sizes("conv2d_weight_grad", x, grad_weight, grad);
  const std::int64_t total = grad_weight.num_elements();
  if (total == 0) return;
  const Current current(*ctx.device);
  visit_floating(grad.dtype(), [&]<class T>(TypeTag<T>) {
    check(launch<sum_weight_grad<T>>(grid_for(total * kLanes), stream_of(ctx), sizes, window,
                                     Planes<const T>(grad), Planes<const T>(x),
                                     Planes<T>(grad_weight), total),
          *ctx.device, "conv2d_weight_grad");
  });
}

}  // namespace tessera::kernels::TSR_CUDA
