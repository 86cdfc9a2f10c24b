// kernels/cuda_device.h: devices that run the kernels of kernels/cuda/: CUDA's, and emulated ones.
#pragma once

#include <memory>

#include "kernels/device.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// A device with streams of its own; several may share one card. Errors: NotFound where there is no
/// such ordinal, with how many there are; Unavailable where there is no driver.
StatusOr<std::shared_ptr<Device>> make_cuda_device(int ordinal);
/// Cards whose ordinals count from 0; 0 where there is no driver.
int num_cuda_devices();
/// The same on the processor (emulation/), which every machine has.
StatusOr<std::shared_ptr<Device>> make_emulated_device(int ordinal);
int num_emulated_devices();

}  // namespace tessera
