// kernels/host_device.h: marks what device code may call too.
#pragma once

#if defined(__CUDACC__)
#define TSR_HOST_DEVICE __host__ __device__
#else
#define TSR_HOST_DEVICE
#endif
