// runtime/mpi/device_pointers.h: whether a job's messages go from and to the memory of devices.
#pragma once

#include "runtime/call/event.h"
#include "runtime/control/channel.h"
#include "runtime/mpi_world.h"

namespace tessera {

/// kDirect where every rank says so, else kStaged. Collective: yes. Errors: InvalidArgument on all
/// ranks where one has a variable in its environment that says none of what it may.
StatusOr<DevicePath> agree_on_device_path(DevicePointers asked, const ExchangeTexts& exchange);

}  // namespace tessera
