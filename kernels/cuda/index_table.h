// kernels/cuda/index_table.h: lists of indices that the host has, in a device's memory.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/array.h"
#include "kernels/cuda/launch.h"

namespace tessera::kernels::TSR_CUDA {

/// `values` as an array (I64) of the context's device. They may go as soon as this returns: they
/// travel in launches, as runs of consecutive numbers, which most lists are few of.
Array index_table(KernelContext& ctx, std::span<const std::int64_t> values);

}  // namespace tessera::kernels::TSR_CUDA
