// runtime/threads/host_transfer.h: how data move between rank threads: readers copy straight from
// their peers' arrays. A small source is copied when it is published, so that its owner need not
// wait for the readers.
#pragma once

#include "runtime/threads/hub.h"

namespace tessera {

/// Sets where peers read and write for the call in `post`. Requires a prepared call and its
/// signature.
void publish_data(ThreadsPost& post, const GroupPlace& place);
/// The same of a kPeerRows call, on the host or a device.
void publish_peer_buffer(ThreadsPost& post, const GroupPlace& place);
/// A kPeerRows call's part, by the context's device.
void transfer_peer_rows(ThreadsRound& round, int party, KernelContext& ctx, Stream& stream);
/// Does this party's copies and folds, large ones on up to `threads` threads. Requires a ready
/// round whose verdict is OK.
void transfer(ThreadsRound& round, int party, int threads);

}  // namespace tessera
