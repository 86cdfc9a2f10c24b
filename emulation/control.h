// emulation/control.h: what a test or a program sets and counts of the emulated devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::emulation {

/// How many devices there are, from now on; 8 unless set. 0: as a machine without one.
void set_device_count(int count);
/// What each device's cudaMalloc may give in all; 16 GiB unless set.
void set_device_memory(std::size_t bytes);
/// Whether another process has the device for itself: nothing can be begun on it then.
void set_device_busy(int device, bool is_busy);
/// The kernel with this number among the device's from now on, 1 the first, ends by a fault.
void plant_fault(int device, std::int64_t number);
/// Kernels launched on the device so far, those of graphs included.
std::int64_t launches(int device);
/// The first fault of the device's kernels: the kernel, the device thread and what it did. Empty
/// where there was none since cudaDeviceReset().
std::string fault(int device);

}  // namespace tessera::emulation
