// runtime/threads/device_transfer.h: how data move between rank threads whose arrays lie on
// devices: kernels on the communication stream read and write the peers' arrays, after marks of the
// peers' streams. No rank waits for a device here; ranks wait for one another only to have given
// their work.
#pragma once

#include "runtime/threads/hub.h"

namespace tessera {

/// Sets where peers read and write for the call in `post`, whose arrays lie on post.device.
void publish_on_device(ThreadsPost& post, const GroupPlace& place);
/// Gives this party's copies and folds to its device. Requires a ready round whose verdict is OK.
/// Errors: throws Unimplemented where the device does not reach a peer's memory.
void transfer_on_device(ThreadsRound& round, int party);
/// What the compute stream is given from now on comes after all work on the party's arrays: its own
/// and, where they read from it, its peers'. Requires that these have given theirs.
void finish_on_device(ThreadsRound& round, int party);

}  // namespace tessera
