// runtime/threads/host_transfer.h: how data move between rank threads: readers copy straight from
// their peers' arrays. A small source is copied when it is published, so that its owner need not
// wait for the readers.
#pragma once

#include "runtime/threads/hub.h"

namespace tessera {

/// Sets where peers read and write for the call in `post`. Requires a prepared call and its
/// signature.
void publish_data(ThreadsPost& post, const GroupPlace& place);
/// Does this party's copies and folds, large ones on up to `threads` threads. Requires a ready
/// round whose verdict is OK.
void transfer(ThreadsRound& round, int party, int threads);

}  // namespace tessera
