// runtime/sim/allocator.h: buffers that are addresses only: they are counted, but what is written
// into them is not kept, so that one machine can stand for ranks with any amount of memory.
#pragma once

#include <memory>

#include "kernels/memory_use.h"

namespace tessera {

/// Counts exactly the bytes asked for. Large buffers are reserved addresses; all their pages are
/// windows onto one small region, so writing into a buffer of any size touches no more than that.
/// Values read are arbitrary, zeros at first. Up to 2^46 bytes each. Thread-safety: any thread.
std::shared_ptr<CountingAllocator> make_sim_allocator();

}  // namespace tessera
