// kernels/cuda/map_packs.h: map() for cheap functions, which the card's memory holds up: a thread
// takes a pack of neighbouring elements of every operand, in words of 16 bytes, where they lie so.
#pragma once

#include <cstring>
#include <optional>

#include "kernels/cuda/map.h"

namespace tessera::kernels::TSR_CUDA {

inline constexpr int kPackElements = 8;

/// A loop over packs. Dim 0 is there always, and its strides are in elements as all others'.
template <int kOperands>
struct PackLayout {
  MapLayout<kOperands> packs;
  std::int64_t rest = 0;  // elements behind the last pack, where all lie one behind the other
  unsigned repeated = 0;  // bit k: one element of operand k stands for each of a pack
};

/// The largest word in which packs of elements of `bytes` bytes move.
constexpr std::int64_t pack_word_bytes(std::int64_t bytes) {
  return std::min<std::int64_t>(16, kPackElements * bytes);
}

/// The loop in packs, or nothing where they do not fit: a row ends within one, an operand's
/// elements lie apart or not at whole words. The first `outputs` operands are written.
template <int kOperands>
std::optional<PackLayout<kOperands>> in_packs(const MapLayout<kOperands>& layout, int outputs) {
  PackLayout<kOperands> made{.packs = layout};
  MapLayout<kOperands>& packs = made.packs;
  const bool is_linear = layout.ndim == 0;
  if (is_linear) {
    packs.ndim = 1;
    packs.sizes[0] = layout.total;
    made.rest = layout.total % kPackElements;
  } else if (layout.sizes[0] % kPackElements != 0) {
    return std::nullopt;
  }
  packs.total /= kPackElements;
  packs.sizes[0] /= kPackElements;
  if (packs.total == 0) return std::nullopt;
  for (int k = 0; k < kOperands; ++k) {
    MapOperand& operand = packs.operands[k];
    if (is_linear) operand.strides[0] = 1;
    if (operand.strides[0] == 0 && k >= outputs) {
      made.repeated |= 1U << k;
      continue;
    }
    if (operand.strides[0] != 1) return std::nullopt;
    operand.strides[0] = kPackElements;
    const std::int64_t bytes = size_of(operand.dtype), word = pack_word_bytes(bytes);
    bool is_aligned = reinterpret_cast<std::intptr_t>(operand.data) % word == 0;
    for (int d = 1; d < packs.ndim; ++d) {
      is_aligned = is_aligned && operand.strides[d] * bytes % word == 0;
    }
    if (!is_aligned) return std::nullopt;
  }
  return made;
}

template <class T>
using PackWord = std::conditional_t<pack_word_bytes(sizeof(T)) == 16, uint4, uint2>;

template <class C, class T>
__device__ void load_pack_as(const std::byte* data, std::int64_t at, C (&to)[kPackElements]) {
  using Word = PackWord<T>;
  constexpr int kEach = sizeof(Word) / sizeof(T), kWords = kPackElements / kEach;
  const auto* from = reinterpret_cast<const Word*>(data + at * sizeof(T));
  Word words[kWords];
  TSR_UNROLL
  for (int w = 0; w < kWords; ++w) words[w] = from[w];
  TSR_UNROLL
  for (int w = 0; w < kWords; ++w) {
    T elements[kEach];
    std::memcpy(static_cast<void*>(elements), &words[w], sizeof(Word));
    TSR_UNROLL
    for (int e = 0; e < kEach; ++e) to[w * kEach + e] = convert<C>(elements[e]);
  }
}
template <class C, class T>
__device__ void store_pack_as(std::byte* data, std::int64_t at, const C (&from)[kPackElements]) {
  using Word = PackWord<T>;
  constexpr int kEach = sizeof(Word) / sizeof(T), kWords = kPackElements / kEach;
  auto* to = reinterpret_cast<Word*>(data + at * sizeof(T));
  TSR_UNROLL
  for (int w = 0; w < kWords; ++w) {
    T elements[kEach];
    TSR_UNROLL
    for (int e = 0; e < kEach; ++e) elements[e] = convert<T>(from[w * kEach + e]);
    Word word;
    std::memcpy(&word, elements, sizeof(Word));
    to[w] = word;
  }
}

/// f(TypeTag<T>) in device code, alike for all threads.
template <class F>
__device__ void visit_element_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF32:
      return f(TypeTag<float>{});
    case DType::kBF16:
      return f(TypeTag<BFloat16>{});
    case DType::kF16:
      return f(TypeTag<Float16>{});
    case DType::kI64:
      return f(TypeTag<std::int64_t>{});
    case DType::kI32:
      return f(TypeTag<std::int32_t>{});
    case DType::kU8:
      return f(TypeTag<std::uint8_t>{});
    case DType::kBool:
      break;
  }
  f(TypeTag<bool>{});
}

/// Calls body(f) with a function of elements: `function`, or what it chooses for all of a launch.
template <class F, class Body>
__device__ void with_chosen(const F& function, Body&& body) {
  if constexpr (requires { function.choose(body); }) {
    function.choose(body);
  } else {
    body(function);
  }
}

/// function(i, in, out) as map_elements() calls it, where i is of no use.
template <class C, int kOutputs, int kInputs, class F>
__global__ void map_packs(PackLayout<kOutputs + kInputs> layout, F function) {
  constexpr int kOperands = kOutputs + kInputs;
  const std::int64_t packs = layout.packs.total;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < packs + layout.rest; i += step) {
    const bool is_pack = i < packs;
    std::int64_t offsets[kOperands];
    if (is_pack) {
      offsets_of(layout.packs, i, offsets);
    } else {
      TSR_UNROLL
      for (int k = 0; k < kOperands; ++k) offsets[k] = packs * kPackElements + (i - packs);
    }
    C in[kInputs][kPackElements], out[kOutputs][kPackElements];
    TSR_UNROLL
    for (int k = 0; k < kInputs; ++k) {
      const MapOperand& from = layout.packs.operands[kOutputs + k];
      const std::int64_t at = offsets[kOutputs + k];
      if (is_pack && (layout.repeated >> (kOutputs + k) & 1U) == 0) {
        visit_element_type(from.dtype,
                           [&]<class T>(TypeTag<T>) { load_pack_as<C, T>(from.data, at, in[k]); });
      } else {
        const C value = load<C>(from, at);
        TSR_UNROLL
        for (int e = 0; e < kPackElements; ++e) in[k][e] = value;
      }
    }
    with_chosen(function, [&](const auto& of_element) {
      TSR_UNROLL
      for (int e = 0; e < kPackElements; ++e) {
        C from[kInputs], to[kOutputs];
        TSR_UNROLL
        for (int k = 0; k < kInputs; ++k) from[k] = in[k][e];
        of_element(0, from, to);
        TSR_UNROLL
        for (int k = 0; k < kOutputs; ++k) out[k][e] = to[k];
      }
    });
    TSR_UNROLL
    for (int k = 0; k < kOutputs; ++k) {
      const MapOperand& to = layout.packs.operands[k];
      if (is_pack) {
        visit_element_type(to.dtype, [&]<class T>(TypeTag<T>) {
          store_pack_as<C, T>(to.data, offsets[k], out[k]);
        });
      } else {
        store(to, offsets[k], out[k][0]);
      }
    }
  }
}

/// As map(), of a function that takes no i and is cheap enough to be compiled for each element of a
/// pack.
template <class C, int kOutputs, int kInputs, class F>
void map_in_packs(KernelContext& ctx, const char* name,
                  const std::array<const Array*, kOutputs + kInputs>& operands, const F& function) {
  run_layouts<kOutputs + kInputs>(ctx, name, operands, [&](const auto& layout) {
    if (const auto packs = in_packs(layout, kOutputs)) {
      return launch<map_packs<C, kOutputs, kInputs, F>>(grid_for(packs->packs.total + packs->rest),
                                                        stream_of(ctx), *packs, function);
    }
    return launch<map_elements<C, kOutputs, kInputs, F>>(grid_for(layout.total), stream_of(ctx),
                                                         layout, function);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
