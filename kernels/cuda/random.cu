// Random values: each thread draws those of its elements from their global indices.
#include "kernels/cuda/index_table.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/random_draws.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// One dim of the output, from the innermost: coordinate c stands at c·stride, and its index in the
/// whole tensor is (table[c], or c)·step further.
struct DrawnDim {
  std::int64_t size, stride, step;
  const std::int64_t* table;  // null where indices follow each other
};
struct DrawnLayout {
  std::int64_t total = 1;
  std::int64_t base = 0;  // the index of the first element, but for the tables' part
  int ndim = 0;
  DrawnDim dims[kMaxDims];
};

// Two elements share a block of the generator.
constexpr std::int64_t kDrawsAThread = 2;

template <class T>
__global__ void draw(DrawnLayout layout, RandomSpec spec, Sampler sampler, T* out) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * kDrawsAThread;
  std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kDrawsAThread;
  for (; first < layout.total; first += step) {
    Draws draws(spec.seed, spec.stream);
    for (std::int64_t i = first; i < first + kDrawsAThread && i < layout.total; ++i) {
      std::int64_t offset = 0, index = layout.base, rest = i;
      for (int d = 0; d < layout.ndim; ++d) {
        const DrawnDim& dim = layout.dims[d];
        const std::int64_t coord = rest % dim.size;
        rest /= dim.size;
        offset += coord * dim.stride;
        index += (dim.table == nullptr ? coord : dim.table[coord]) * dim.step;
      }
      out[offset] = narrow<T>(spec, sampler.value(draws.bits(index)));
    }
  }
}

bool follow_each_other(const std::vector<std::int64_t>& list) {
  for (std::size_t i = 1; i < list.size(); ++i) {
    if (list[i] != list[0] + static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

/// Dims that lie evenly both in the output and in the whole tensor become one. Tables are kept in
/// `tables` until the launch.
DrawnLayout layout_of(KernelContext& ctx, const Shape& global_shape,
                      std::span<const std::vector<std::int64_t>> global_index, const Array& out,
                      std::vector<Array>& tables) {
  DrawnLayout layout;
  std::int64_t step = 1;
  for (auto d = static_cast<std::size_t>(out.ndim()); d-- > 0; step *= global_shape[d]) {
    DrawnDim dim{
        .size = out.shape()[d], .stride = out.strides()[d], .step = step, .table = nullptr};
    layout.total *= dim.size;
    if (follow_each_other(global_index[d])) {
      layout.base += global_index[d][0] * step;
      if (dim.size == 1) continue;
    } else {
      tables.push_back(index_table(ctx, global_index[d]));
      dim.table = device_data<std::int64_t>(tables.back());
    }
    if (layout.ndim > 0) {
      DrawnDim& inner = layout.dims[layout.ndim - 1];
      const bool is_even = inner.table == nullptr && dim.table == nullptr &&
                           dim.step == inner.step * inner.size &&
                           dim.stride == inner.stride * inner.size;
      if (is_even) {
        inner.size *= dim.size;
        continue;
      }
    }
    layout.dims[layout.ndim++] = dim;
  }
  return layout;
}

}  // namespace

void random(KernelContext& ctx, const RandomSpec& spec, const Shape& global_shape,
            std::span<const std::vector<std::int64_t>> global_index, const Array& out) {
  check_drawn(global_shape, global_index, out);
  require_random(spec, out.dtype());
  if (out.num_elements() == 0) return;
  std::vector<Array> tables;
  const DrawnLayout layout = layout_of(ctx, global_shape, global_index, out, tables);
  const Grid grid = grid_for((layout.total + kDrawsAThread - 1) / kDrawsAThread);
  const Current current(*ctx.device);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    check(launch<draw<T>>(grid, stream_of(ctx), layout, spec, Sampler(spec), device_data<T>(out)),
          *ctx.device, "random");
  });
}

}  // namespace tessera::kernels::TSR_CUDA
