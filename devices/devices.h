// devices/devices.h: the devices that this build has, by the names that command lines give them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/array.h"
#include "kernels/cuda_device.h"
#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Of `flag`: cpu, cuda or emulated. Errors: InvalidArgument naming the flag and what is allowed.
StatusOr<DeviceId::Kind> parse_device_kind(std::string_view flag, std::string_view text);

/// A device for a rank, with streams of its own: ranks take the cards in turn. The processor's is
/// the same for all. Errors: Unavailable where this build or this machine has none of the kind, or
/// another process has it; InvalidArgument for a TESSERA_EMULATED_FAULT that asks for none.
StatusOr<std::shared_ptr<Device>> make_device_of_rank(DeviceId::Kind kind, std::int64_t rank);

/// What WorldOptions::allocator asks for each rank; null for the processor. Errors: those of
/// make_device_of_rank() for rank 0; what it throws for others is the same.
StatusOr<std::function<std::shared_ptr<Allocator>(std::int64_t rank)>> memory_of_devices(
    DeviceId::Kind kind);

/// Which work a library does on the device and which a plain kernel, and how often each did so far;
/// nothing for the processor.
std::vector<LibraryUse> libraries_of(Device& device);

/// How many of them this machine has; 0 of cuda and of emulated ones where the program is built
/// without them.
int num_devices(DeviceId::Kind kind);

/// Whether the program is built with emulated devices.
bool has_emulated_devices();

}  // namespace tessera
