#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/kernels.h"

namespace tessera::kernels::TSR_CUDA {

const KernelTable& device_kernels() noexcept {
  static constexpr KernelTable kTable = {
#define TSR_KERNEL_OF_DEVICE(name) .name = name,
      TSR_KERNELS(TSR_KERNEL_OF_DEVICE)
#undef TSR_KERNEL_OF_DEVICE
  };
  return kTable;
}

}  // namespace tessera::kernels::TSR_CUDA
