// kernels/cuda/libraries.h: which work is a library's on a card. Each has one source, in which the
// library's name stands too; where a program or a machine lacks it, a kernel of ours does the work.
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda_device.h"

namespace tessera::kernels::TSR_CUDA {

/// The library with its version, or "plain kernel" and why.
std::string product_library(const Device& device);
std::string grouped_library(const Device& device);
std::string attention_library(Device& device);
std::string key_order_library();

/// Counts a call for libraries_of(). Returns by_library: whether it was the library's.
bool count_call(KernelContext& ctx, LibraryWork work, bool by_library);

std::vector<LibraryUse> libraries_of(Device& device);

}  // namespace tessera::kernels::TSR_CUDA
