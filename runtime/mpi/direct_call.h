// runtime/mpi/direct_call.h: a call on arrays of a device whose messages go from and to the memory
// of that device: for an MPI library that takes its pointers.
#pragma once

#include <memory>
#include <optional>

#include "runtime/device/device_side.h"
#include "runtime/mpi/movement.h"

namespace tessera {

/// Begin the movement once the device lets messages go.
struct DirectCall {
  std::unique_ptr<DeviceSide> device;
  std::unique_ptr<Movement> movement;  ///< of which `device` is a part
};
/// Gives the device what comes before the first messages. nullopt for an exchange that is to be
/// staged: its buffers would take more than call.pack_bytes, or it has very many messages. Each
/// rank may decide for itself: messages are the same. `call` and `signature` outlive the result.
std::optional<DirectCall> make_direct_call(MovementPlace place, const CollectiveCall& call,
                                           const Signature& signature);

}  // namespace tessera
