// kernels/cuda/quotient.h: divisions on a device.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"

namespace tessera::kernels::TSR_CUDA {

/// a / b, neither negative. Words of 32 bits, as most are, divide several times faster.
inline __device__ std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

}  // namespace tessera::kernels::TSR_CUDA
