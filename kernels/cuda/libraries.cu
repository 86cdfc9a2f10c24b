#include "kernels/cuda/libraries.h"

namespace tessera {
namespace kernels::TSR_CUDA {

bool count_call(KernelContext& ctx, LibraryWork work, bool by_library) {
  LibraryCalls& calls = device_of(ctx).library(work).calls;
  ++(by_library ? calls.library : calls.plain);
  return by_library;
}

std::vector<LibraryUse> libraries_of(Device& device) {
  auto& own = static_cast<CudaDevice&>(device);
  const auto use = [&](LibraryWork work, const char* name, const std::string& by) {
    const LibraryCalls& calls = own.library(work).calls;
    return LibraryUse{name, by, calls.library, calls.plain};
  };
  return {use(LibraryWork::kProduct, "products", product_library(device)),
          use(LibraryWork::kGroupedProduct, "grouped products", grouped_library(device)),
          use(LibraryWork::kAttention, "attention", attention_library(device)),
          use(LibraryWork::kKeyOrder, "keys in order", key_order_library())};
}

}  // namespace kernels::TSR_CUDA

#ifdef __CUDACC__
std::vector<LibraryUse> cuda_libraries(Device& device) {
  return kernels::TSR_CUDA::libraries_of(device);
}
#else
std::vector<LibraryUse> emulated_libraries(Device& device) {
  return kernels::TSR_CUDA::libraries_of(device);
}
#endif

}  // namespace tessera
