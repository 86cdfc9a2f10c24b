// kernels/cuda/launch.h: what device code writes where nvcc and the emulation differ: how a kernel
// is launched, and memory that a block shares. Everything else in a .cu source is CUDA as it is.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

// Where a source's own names lie: a program may hold what nvcc made of it and what the emulation
// did.
#if defined(__CUDACC__)
#define TSR_CUDA cuda
#else
#define TSR_CUDA emulated
#endif

namespace tessera {
namespace kernels {

/// Where and how wide a kernel runs. shared_bytes: of TSR_DYNAMIC_SHARED.
struct Grid {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

}  // namespace kernels
}  // namespace tessera

#if defined(__CUDACC__)

/// Before a loop: arrays that it indexes lie in registers.
#define TSR_UNROLL _Pragma("unroll")
/// A variable of the block: TSR_SHARED(float, tile, [32][33]).
#define TSR_SHARED(type, name, ...) __shared__ type name __VA_ARGS__
/// The block's memory that launch() asked for, as an array of `type`, aligned to 16. One a kernel.
#define TSR_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char tsr_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(tsr_dynamic_shared)

namespace tessera {
namespace kernels {

template <auto kKernel, class... Params>
cudaError_t launch_as(void (*)(Params...), const Grid& grid, cudaStream_t stream,
                      const std::type_identity_t<Params>&... params) {
  // What a block may have without asking.
  constexpr std::size_t kUnasked = std::size_t{48} << 10;
  if (grid.shared_bytes > kUnasked &&
      cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(grid.shared_bytes)) != cudaSuccess) {
    return cudaGetLastError();
  }
  kKernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream>>>(params...);
  return cudaGetLastError();
}

}  // namespace kernels
}  // namespace tessera

#else

#include <string>
#include <string_view>
#include <tuple>

#define TSR_UNROLL
#define TSR_SHARED(type, name, ...)              \
  using tsr_shared_##name = type __VA_ARGS__;    \
  static const char tsr_tag_##name = 0;          \
  auto& name = *static_cast<tsr_shared_##name*>( \
      ::tessera::emulation::static_shared(&tsr_tag_##name, sizeof(tsr_shared_##name)))
#define TSR_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::tessera::emulation::dynamic_shared())

namespace tessera {
namespace kernels {

/// The kernel's name as it is written, from what the compiler calls this function.
template <auto kKernel>
const char* kernel_name() {
  static const std::string name = [](std::string_view text) {
    text.remove_prefix(text.find("kKernel = ") + 10);
    return std::string(text.substr(0, text.find_last_of(']')));
  }(__PRETTY_FUNCTION__);
  return name.c_str();
}

template <auto kKernel, class... Params>
cudaError_t launch_as(void (*)(Params...), const Grid& grid, cudaStream_t stream,
                      const std::type_identity_t<Params>&... params) {
  return launch_on(stream,
                   {.grid = grid.blocks, .block = grid.threads, .shared_bytes = grid.shared_bytes},
                   kernel_name<kKernel>(),
                   [all = std::tuple<Params...>(params...)] { std::apply(kKernel, all); });
}

}  // namespace kernels
}  // namespace tessera

#endif

namespace tessera {
namespace kernels {

/// launch<kernel>(grid, stream, arguments…): the arguments become the kernel's parameters.
/// Errors: what CUDA says of the launch itself; what the kernel does shows later.
template <auto kKernel, class... Args>
cudaError_t launch(const Grid& grid, cudaStream_t stream, const Args&... args) {
  return launch_as<kKernel>(kKernel, grid, stream, args...);
}

}  // namespace kernels
}  // namespace tessera
