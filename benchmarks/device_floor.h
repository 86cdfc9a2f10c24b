// benchmarks/device_floor.h: the least that a device takes for anything: a launch of nothing, and a
// plain copy by a kernel.
#pragma once

#include "kernels/array.h"

namespace tessera::bench {

/// Both go to the context's compute stream and do not wait.
struct DeviceFloor {
  void (*launch_nothing)(KernelContext& ctx) = nullptr;
  /// Of arrays of equal size, whose bytes are a multiple of 16.
  void (*copy)(KernelContext& ctx, const Array& from, const Array& to) = nullptr;
};

DeviceFloor emulated_floor();
/// Only in builds with TESSERA_CUDA.
DeviceFloor cuda_floor();

}  // namespace tessera::bench
