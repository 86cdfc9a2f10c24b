// runtime/call/peer_rows.h: a kPeerRows call where the buffers of its group lie in memory that this
// rank, or its device, reaches.
#pragma once

#include <span>

#include "kernels/peer_rows.h"
#include "placement/api.h"
#include "runtime/call/communicator.h"

namespace tessera TSR_API {

/// This rank's part: `buffers` of all group ranks. Runs on `stream` of the context's device.
/// `broken_off`: see kernels::PeerBuffers.
/// Errors: throws those of kernels/peer_rows.h.
void move_peer_rows(KernelContext& ctx, const CollectiveCall& call,
                    std::span<const kernels::PeerBuffer> buffers, Stream& stream,
                    const std::int64_t* broken_off = nullptr);

}  // namespace tessera
