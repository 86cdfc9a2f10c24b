// kernels/host_device.h: marks what device code may call too.
#pragma once

#if defined(__CUDACC__)
#define TSR_HOST_DEVICE __host__ __device__
#else
#define TSR_HOST_DEVICE
#endif

// An inline namespace for functions of numbers that are too long to be inlined everywhere: objects
// are compiled for different instruction sets, and a linker keeps one function of each name.
#if defined(__FMA__)
#define TSR_MACHINE with_fma
#else
#define TSR_MACHINE without_fma
#endif
