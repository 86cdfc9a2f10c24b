#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"

namespace tessera::kernels::TSR_CUDA {

const KernelTable& device_kernels() noexcept {
  static const KernelTable table = [] {
    KernelTable filled;
    filled.copy = copy;
    filled.fill = fill;
    filled.arange = arange;
    filled.unary = unary;
    filled.binary = binary;
    filled.binary_scalar = binary_scalar;
    filled.clamp = clamp;
    filled.where = where;
    filled.masked_fill = masked_fill;
    filled.swiglu = swiglu;
    filled.swiglu_grad = swiglu_grad;
    return filled;
  }();
  return table;
}

}  // namespace tessera::kernels::TSR_CUDA
