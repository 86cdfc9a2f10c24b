// kernels/cuda/lines.h: kernels that work line by line along one dim, a warp a line.
// A line is the elements that differ in that dim's coordinate only.
#pragma once

#include <array>
#include <limits>
#include <utility>

#include "kernels/cuda/map.h"
#include "kernels/lines.h"

namespace tessera::kernels::TSR_CUDA {

inline constexpr int kLanes = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

/// One line of each operand, as a lane of its warp sees it.
template <int kOperands>
struct Lines {
  const MapLayout<kOperands>& layout;
  const std::int64_t* steps;    // from element to element of each operand's line
  const std::int64_t* offsets;  // of each line's first element
  std::int64_t n;
  int lane;

  template <class C>
  __device__ C get(int operand, std::int64_t i) const {
    return load<C>(layout.operands[operand], offsets[operand] + i * steps[operand]);
  }
  template <class C>
  __device__ void set(int operand, std::int64_t i, C value) const {
    store(layout.operands[operand], offsets[operand] + i * steps[operand], value);
  }
};

// Of a warp, or of each `lanes` neighbours in it, a power of two; all its lanes call.

template <class C>
__device__ C warp_sum(C value, int lanes = kLanes) {
  for (int step = lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}
/// NaN where a lane has one.
template <class C>
__device__ C warp_max(C value, int lanes = kLanes) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    const C other = __shfl_xor_sync(kAllLanes, value, step);
    value = other > value || other != other ? other : value;
  }
  return value;
}

/// Of this lane and those before it.
template <class T>
__device__ T sum_so_far(T value, int lane) {
  for (int step = 1; step < kLanes; step *= 2) {
    const T before = __shfl_up_sync(kAllLanes, value, static_cast<unsigned>(step));
    if (lane >= step) value += before;
  }
  return value;
}

template <int kOperands>
struct LineSteps {
  std::int64_t of[kOperands];
};

template <int kOperands, class F>
__global__ void map_lines(MapLayout<kOperands> layout, LineSteps<kOperands> steps, std::int64_t n,
                          F function) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (std::int64_t line = first; line < layout.total; line += warps) {
    std::int64_t offsets[kOperands];
    offsets_of(layout, line, offsets);
    function(
        Lines<kOperands>{layout, steps.of, offsets, n, static_cast<int>(threadIdx.x % kLanes)});
  }
}

/// Scratch for so many values of T, of whatever type, which device_data() gives.
template <class T>
Array scratch_for(KernelContext& ctx, std::int64_t count) {
  const Shape bytes = {count * static_cast<std::int64_t>(sizeof(T))};
  return Array::empty(bytes, DType::kU8, ctx.allocator);
}

/// An operand of line kernels: lines of `array` along `dim`, or, where dim is −1, one element a
/// line.
struct LineOperand {
  const Array& array;
  int dim = -1;
};

/// The first element of each line of `array` along `dim`; of lines without elements, one that
/// stands for all and is never touched.
inline Array first_elements(KernelContext& ctx, const Array& array, int dim) {
  const Shape shape = without_dim(array.shape(), dim);
  if (array.num_elements() > 0 || num_elements(shape) == 0) {
    return array.as_strided(shape, without_dim(array.strides(), dim), array.offset());
  }
  const Array stand_in = Array::empty({1}, array.dtype(), ctx.allocator);
  return stand_in.as_strided(shape, Shape(shape.size(), 0), 0);
}

/// Calls run(layout of the lines' first elements, steps, n), which launches, as run_layouts() does.
/// Operands broadcast to the first, outside of the dim of their lines, which are n long: as those
/// of the first that has any. Errors: as run_layouts().
template <int kOperands, class Run>
void run_line_layouts(KernelContext& ctx, const char* name,
                      const std::array<LineOperand, kOperands>& operands, Run&& run) {
  std::array<Array, kOperands> firsts;
  std::array<const Array*, kOperands> pointers{};
  LineSteps<kOperands> steps{};
  std::int64_t n = 0;
  bool has_lines = false;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const auto& [array, dim] = operands[k];
    firsts[k] = dim < 0 ? array : first_elements(ctx, array, dim);
    if (dim >= 0) {
      if (!std::exchange(has_lines, true)) n = array.size(dim);
      steps.of[k] = array.strides()[static_cast<std::size_t>(dim)];
    }
    pointers[k] = &firsts[k];
  }
  run_layouts<kOperands>(ctx, name, pointers,
                         [&](const MapLayout<kOperands>& layout) { return run(layout, steps, n); });
}

/// function(lines) by each warp for each line. Operands and errors: as run_line_layouts().
template <int kOperands, class F>
void run_lines(KernelContext& ctx, const char* name,
               const std::array<LineOperand, kOperands>& operands, const F& function) {
  run_line_layouts<kOperands>(
      ctx, name, operands, [&](const auto& layout, const auto& steps, std::int64_t n) {
        return launch<map_lines<kOperands, F>>(grid_for(layout.total * kLanes), stream_of(ctx),
                                               layout, steps, n, function);
      });
}

}  // namespace tessera::kernels::TSR_CUDA
