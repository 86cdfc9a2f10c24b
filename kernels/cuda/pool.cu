// Pools: a thread for each output, and for each input of a gradient, which gathers what windows
// give it in their order.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/pool_windows.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// f(plane, row, column) for the elements of planes that fall to this thread.
template <class F>
__device__ void for_places(std::int64_t planes, std::int64_t height, std::int64_t width, F&& f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < planes * height * width; i += step) {
    const std::int64_t row = i / width;
    f(row / height, row % height, i % width);
  }
}

/// Writes what is asked for of each window: its largest element, that one's place in the whole
/// input, and in the plane. The others are null.
template <class T>
__global__ void find_largest(PoolSizes sizes, WindowPlane window, const T* x, T* out,
                             std::int64_t* places, std::int64_t* local_places) {
  using C = ComputeType<T>;
  for_places(sizes.planes, sizes.out_height, sizes.out_width,
             [&](std::int64_t plane, std::int64_t oh, std::int64_t ow) {
               const T* from = x + plane * sizes.plane();
               const std::int64_t at =
                   largest<C>(from, sizes.width, taps_of(window.h, oh, sizes.height),
                              taps_of(window.w, ow, sizes.width));
               const std::int64_t o = plane * sizes.out_plane() + oh * sizes.out_width + ow;
               if (out != nullptr) {
                 out[o] = at < 0 ? convert<T>(-std::numeric_limits<C>::infinity()) : from[at];
               }
               if (places != nullptr) places[o] = place_in_whole(at, sizes.width, window);
               if (local_places != nullptr) local_places[o] = at;
             });
}

template <class T>
__global__ void average(PoolSizes sizes, WindowPlane window, Divisor divisor, const T* x, T* out) {
  using C = ComputeType<T>;
  for_places(sizes.planes, sizes.out_height, sizes.out_width,
             [&](std::int64_t plane, std::int64_t oh, std::int64_t ow) {
               const T* from = x + plane * sizes.plane();
               const Taps rows = taps_of(window.h, oh, sizes.height);
               const Taps columns = taps_of(window.w, ow, sizes.width);
               C sum = 0;
               for (std::int64_t i = rows.start; i < rows.stop; i += rows.step) {
                 for (std::int64_t j = columns.start; j < columns.stop; j += columns.step) {
                   sum += convert<C>(from[i * sizes.width + j]);
                 }
               }
               const auto by = static_cast<C>(divided_by(window, oh, ow, divisor));
               out[plane * sizes.out_plane() + oh * sizes.out_width + ow] = convert<T>(sum / by);
             });
}

/// What a window gives the place (i, j) that it spans: its cotangent, where that is its largest.
template <class T>
struct LargestShare {
  const T* grad;
  const std::int64_t* local_places;

  template <class C>
  __device__ void add(C& sum, const PoolSizes& sizes, const WindowPlane&, std::int64_t plane,
                      std::int64_t oh, std::int64_t ow, std::int64_t i, std::int64_t j) const {
    const std::int64_t o = plane * sizes.out_plane() + oh * sizes.out_width + ow;
    if (local_places[o] == i * sizes.width + j) sum += convert<C>(grad[o]);
  }
};
/// The same where each that it reads has an equal share.
template <class T>
struct EqualShare {
  const T* grad;
  Divisor divisor;

  template <class C>
  __device__ void add(C& sum, const PoolSizes& sizes, const WindowPlane& window, std::int64_t plane,
                      std::int64_t oh, std::int64_t ow, std::int64_t i, std::int64_t j) const {
    if (!reads(window.h, oh, i) || !reads(window.w, ow, j)) return;
    const std::int64_t o = plane * sizes.out_plane() + oh * sizes.out_width + ow;
    sum += convert<C>(grad[o]) / static_cast<C>(divided_by(window, oh, ow, divisor));
  }
};

template <class T, class Share>
__global__ void gather_shares(PoolSizes sizes, WindowPlane window, Share share, T* grad_x) {
  using C = ComputeType<T>;
  for_places(sizes.planes, sizes.height, sizes.width,
             [&](std::int64_t plane, std::int64_t i, std::int64_t j) {
               const Interval rows = spanning(window.h, i, sizes.out_height);
               const Interval columns = spanning(window.w, j, sizes.out_width);
               C sum = 0;
               for (std::int64_t oh = rows.start; oh < rows.stop; ++oh) {
                 for (std::int64_t ow = columns.start; ow < columns.stop; ++ow) {
                   share.add(sum, sizes, window, plane, oh, ow, i, j);
                 }
               }
               grad_x[plane * sizes.plane() + i * sizes.width + j] = convert<T>(sum);
             });
}

template <auto kKernel, class... Args>
void run(KernelContext& ctx, const char* op, std::int64_t elements, Args... args) {
  if (elements == 0) return;
  const Current current(*ctx.device);
  check(launch<kKernel>(grid_for(elements), stream_of(ctx), args...), *ctx.device, op);
}

void copy_result(KernelContext& ctx, const Array& result, const Array& out) {
  if (!out.is_contiguous()) copy(ctx, result, out);
}

}  // namespace

void max_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Array& out,
              const Array& indices) {
  const PoolSizes sizes("max_pool", x, out);
  const Array dense = contiguous(ctx, x), result = result_like(ctx, out);
  const Array places = indices.is_null() ? Array() : result_like(ctx, indices);
  std::int64_t* no_places = nullptr;
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    run<find_largest<T>>(ctx, "max_pool", sizes.planes * sizes.out_plane(), sizes, window,
                         device_data<T>(dense), device_data<T>(result),
                         places.is_null() ? no_places : device_data<std::int64_t>(places),
                         no_places);
  });
  copy_result(ctx, result, out);
  if (!indices.is_null()) copy_result(ctx, places, indices);
}

void max_pool_grad(KernelContext& ctx, const Array& grad, const Array& x, const WindowPlane& window,
                   const Array& grad_x) {
  const PoolSizes sizes("max_pool_grad", x, grad);
  const Array dense = contiguous(ctx, x), grads = contiguous(ctx, grad);
  const Array result = result_like(ctx, grad_x);
  const Array places = Array::empty(grad.shape(), DType::kI64, ctx.allocator);
  std::int64_t* const local_places = device_data<std::int64_t>(places);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    T* no_values = nullptr;
    std::int64_t* no_places = nullptr;
    run<find_largest<T>>(ctx, "max_pool_grad", sizes.planes * sizes.out_plane(), sizes, window,
                         device_data<T>(dense), no_values, no_places, local_places);
    run<gather_shares<T, LargestShare<T>>>(
        ctx, "max_pool_grad", sizes.planes * sizes.plane(), sizes, window,
        LargestShare<T>{device_data<T>(grads), local_places}, device_data<T>(result));
  });
  copy_result(ctx, result, grad_x);
}

void avg_pool(KernelContext& ctx, const Array& x, const WindowPlane& window, const Divisor& divisor,
              const Array& out) {
  const PoolSizes sizes("avg_pool", x, out);
  const Array dense = contiguous(ctx, x), result = result_like(ctx, out);
  visit_floating(x.dtype(), [&]<class T>(TypeTag<T>) {
    run<average<T>>(ctx, "avg_pool", sizes.planes * sizes.out_plane(), sizes, window, divisor,
                    device_data<T>(dense), device_data<T>(result));
  });
  copy_result(ctx, result, out);
}

void avg_pool_grad(KernelContext& ctx, const Array& grad, const WindowPlane& window,
                   const Divisor& divisor, const Array& grad_x) {
  const PoolSizes sizes("avg_pool_grad", grad_x, grad);
  const Array grads = contiguous(ctx, grad), result = result_like(ctx, grad_x);
  visit_floating(grad.dtype(), [&]<class T>(TypeTag<T>) {
    run<gather_shares<T, EqualShare<T>>>(ctx, "avg_pool_grad", sizes.planes * sizes.plane(), sizes,
                                         window, EqualShare<T>{device_data<T>(grads), divisor},
                                         device_data<T>(result));
  });
  copy_result(ctx, result, grad_x);
}

}  // namespace tessera::kernels::TSR_CUDA
