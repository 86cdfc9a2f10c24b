// kernels/cuda/kernels.h: the device's kernels, by the names and types of the functions of
// kernels:: that call them.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/kernel_table.h"

namespace tessera::kernels::TSR_CUDA {

#define TSR_KERNEL_DECLARED(name) decltype(kernels::name) name;
TSR_KERNELS(TSR_KERNEL_DECLARED)
#undef TSR_KERNEL_DECLARED

}  // namespace tessera::kernels::TSR_CUDA
