// kernels/cuda/map.h: a function of elements over operands of any strides and dtypes that broadcast
// to the first, on the device. Elements are read as a computation type C and stored as each
// operand's own.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/cuda/cuda_device.h"
#include "kernels/dtype_switch.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels::TSR_CUDA {

/// f(TypeTag<C>) with the type in which floating values of `dtype` are computed: F64 for F64, else
/// F32.
template <class F>
void visit_float_type(DType dtype, F&& f) {
  if (dtype == DType::kF64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

/// Dims that one launch covers; what is left of more, after merging, takes a launch each.
inline constexpr int kLaunchDims = 8;

struct MapOperand {
  std::byte* data;
  DType dtype;
  std::int64_t strides[kLaunchDims];  // in elements
};

/// What lies behind `ndim` dims is not set: a launch would wait for the zeros.
template <int kOperands>
struct MapLayout {
  std::int64_t total = 0;
  int ndim = 0;  // 0: element i of the loop is element i of every operand
  std::int64_t sizes[kLaunchDims];
  MapOperand operands[kOperands];
};

template <class C, class T>
__device__ C load_as(const std::byte* data, std::int64_t at) {
  return convert<C>(reinterpret_cast<const T*>(data)[at]);
}
template <class C>
__device__ C load(const MapOperand& from, std::int64_t at) {
  switch (from.dtype) {
    case DType::kF64:
      return load_as<C, double>(from.data, at);
    case DType::kF32:
      return load_as<C, float>(from.data, at);
    case DType::kBF16:
      return load_as<C, BFloat16>(from.data, at);
    case DType::kF16:
      return load_as<C, Float16>(from.data, at);
    case DType::kI64:
      return load_as<C, std::int64_t>(from.data, at);
    case DType::kI32:
      return load_as<C, std::int32_t>(from.data, at);
    case DType::kU8:
      return load_as<C, std::uint8_t>(from.data, at);
    case DType::kBool:
      break;
  }
  return load_as<C, bool>(from.data, at);
}

template <class T, class C>
__device__ void store_as(std::byte* data, std::int64_t at, C value) {
  reinterpret_cast<T*>(data)[at] = convert<T>(value);
}
template <class C>
__device__ void store(const MapOperand& to, std::int64_t at, C value) {
  switch (to.dtype) {
    case DType::kF64:
      return store_as<double>(to.data, at, value);
    case DType::kF32:
      return store_as<float>(to.data, at, value);
    case DType::kBF16:
      return store_as<BFloat16>(to.data, at, value);
    case DType::kF16:
      return store_as<Float16>(to.data, at, value);
    case DType::kI64:
      return store_as<std::int64_t>(to.data, at, value);
    case DType::kI32:
      return store_as<std::int32_t>(to.data, at, value);
    case DType::kU8:
      return store_as<std::uint8_t>(to.data, at, value);
    case DType::kBool:
      break;
  }
  store_as<bool>(to.data, at, value);
}

/// One element as it is, of two operands of the same dtype.
inline __device__ void copy_element(const MapOperand& to, std::int64_t to_at,
                                    const MapOperand& from, std::int64_t from_at) {
  const auto copy_as = [&]<class Word>(Word) {
    reinterpret_cast<Word*>(to.data)[to_at] = reinterpret_cast<const Word*>(from.data)[from_at];
  };
  switch (size_of(to.dtype)) {
    case 8:
      return copy_as(std::uint64_t{});
    case 4:
      return copy_as(std::uint32_t{});
    case 2:
      return copy_as(std::uint16_t{});
    default:
      return copy_as(std::uint8_t{});
  }
}

/// By divisions of type Index, whose cost on a card grows much with its size.
template <class Index, int kOperands>
__device__ void add_offsets(const MapLayout<kOperands>& layout, Index rest, std::int64_t* offsets) {
  for (int d = 0; d < layout.ndim; ++d) {
    Index coord = rest;
    if (d + 1 < layout.ndim) {
      const auto size = static_cast<Index>(layout.sizes[d]);
      rest /= size;
      coord -= rest * size;
    }
    for (int k = 0; k < kOperands; ++k) {
      offsets[k] += static_cast<std::int64_t>(coord) * layout.operands[k].strides[d];
    }
  }
}

#ifdef __CUDACC__
inline constexpr std::int64_t kMostByWords = 0xffffffff;  // elements that 32 bits count
#else
inline constexpr std::int64_t kMostByWords = 100;
#endif

/// Where element i of the loop lies in each operand, in elements.
template <int kOperands>
__device__ void offsets_of(const MapLayout<kOperands>& layout, std::int64_t i,
                           std::int64_t* offsets) {
  for (int k = 0; k < kOperands; ++k) offsets[k] = layout.ndim == 0 ? i : 0;
  if (layout.total <= kMostByWords) {
    add_offsets<std::uint32_t>(layout, static_cast<std::uint32_t>(i), offsets);
  } else {
    add_offsets<std::int64_t>(layout, i, offsets);
  }
}

/// f(i, offsets of element i) for each element that falls to this thread.
template <int kOperands, class F>
__device__ void for_each_element(const MapLayout<kOperands>& layout, F&& f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < layout.total; i += step) {
    std::int64_t offsets[kOperands];
    offsets_of(layout, i, offsets);
    f(i, offsets);
  }
}

/// function(i, in, out) for each element i.
template <class C, int kOutputs, int kInputs, class F>
__global__ void map_elements(MapLayout<kOutputs + kInputs> layout, F function) {
  for_each_element(layout, [&](std::int64_t i, const std::int64_t* offsets) {
    C in[kInputs > 0 ? kInputs : 1];
    C out[kOutputs];
    for (int k = 0; k < kInputs; ++k) {
      in[k] = load<C>(layout.operands[kOutputs + k], offsets[kOutputs + k]);
    }
    function(i, in, out);
    for (int k = 0; k < kOutputs; ++k) store(layout.operands[k], offsets[k], out[k]);
  });
}

// The emulation's threads are few, as each costs as much as its work.
#ifdef __CUDACC__
inline constexpr int kGridThreads = 256;  // of a block
inline constexpr std::int64_t kMostGridBlocks = 4096;
#else
inline constexpr int kGridThreads = 32;
inline constexpr std::int64_t kMostGridBlocks = 3;
#endif
/// Enough threads to fill a card.
inline Grid grid_for(std::int64_t elements) {
  return {.blocks = static_cast<unsigned>(std::clamp<std::int64_t>(
              (elements + kGridThreads - 1) / kGridThreads, 1, kMostGridBlocks)),
          .threads = kGridThreads};
}

/// Of one shape and contiguous, as most operands are.
template <std::size_t kOperands>
bool are_dense(const std::array<const Array*, kOperands>& operands) {
  return std::all_of(operands.begin(), operands.end(), [&](const Array* each) {
    return each->is_contiguous() && (each == operands[0] || each->shape() == operands[0]->shape());
  });
}

/// Calls run(layout), which launches, for operands that broadcast to the first: once, but for more
/// dims than one launch covers. Errors: InvalidArgument naming `name` and the shapes; those of
/// check().
template <int kOperands, class Run>
void run_layouts(KernelContext& ctx, const char* name,
                 const std::array<const Array*, kOperands>& operands, Run&& run) {
  MapLayout<kOperands> layout;
  if (are_dense(operands)) {
    layout.total = layout.sizes[0] = operands[0]->num_elements();
    for (std::size_t k = 0; k < operands.size(); ++k) {
      MapOperand& operand = layout.operands[k];
      operand.data = operands[k]->bytes();
      operand.dtype = operands[k]->dtype();
      operand.strides[0] = 1;
    }
    if (layout.total == 0) return;
    const Current current(*ctx.device);
    return check(run(layout), *ctx.device, name);
  }
  const StridedLoop loop(name, operands);
  if (loop.total() == 0) return;
  layout.ndim = std::min(loop.ndim(), kLaunchDims);
  layout.total = 1;
  for (int d = 0; d < layout.ndim; ++d) layout.total *= layout.sizes[d] = loop.size(d);
  bool is_linear = loop.ndim() == 1;
  for (int k = 0; k < kOperands; ++k) {
    const Array& array = *operands[static_cast<std::size_t>(k)];
    MapOperand& operand = layout.operands[k];
    operand.data = array.bytes();
    operand.dtype = array.dtype();
    for (int d = 0; d < layout.ndim; ++d) operand.strides[d] = loop.stride(k, d);
    is_linear = is_linear && loop.stride(k, 0) == 1;
  }
  if (is_linear) layout.ndim = 0;

  const Current current(*ctx.device);
  std::int64_t coords[kMaxDims] = {};  // of the dims beyond
  for (int d = 0; d < loop.ndim();) {
    check(run(layout), *ctx.device, name);
    for (d = kLaunchDims; d < loop.ndim(); ++d) {
      const bool carries = ++coords[d] == loop.size(d);
      for (int k = 0; k < kOperands; ++k) {
        MapOperand& operand = layout.operands[k];
        operand.data +=
            (carries ? 1 - loop.size(d) : 1) * loop.stride(k, d) * size_of(operand.dtype);
      }
      if (!carries) break;
      coords[d] = 0;
    }
  }
}

/// function(i, in, out) for each element i of the outputs, which are of one shape, and of the
/// inputs. `operands`: outputs, then inputs. Errors: as run_layouts().
template <class C, int kOutputs, int kInputs, class F>
void map(KernelContext& ctx, const char* name,
         const std::array<const Array*, kOutputs + kInputs>& operands, const F& function) {
  run_layouts<kOutputs + kInputs>(ctx, name, operands, [&](const auto& layout) {
    return launch<map_elements<C, kOutputs, kInputs, F>>(grid_for(layout.total), stream_of(ctx),
                                                         layout, function);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
