// runtime/sim/allocator.h: buffers that are addresses only: they are counted, but what is written
// into them is not kept, so that one machine can stand for ranks with any amount of memory.
#pragma once

#include <memory>

#include "kernels/memory_use.h"

namespace tessera {

/// Counts exactly the bytes asked for. Buffers of fewer than `value_bytes` are memory like any
/// other, zeros at first; larger ones are reserved addresses, all their pages windows onto one
/// small region, so that writing into a buffer of any size touches no more than that; values read
/// from them are arbitrary. Up to 2^46 bytes each. Thread-safety: any thread.
std::shared_ptr<CountingAllocator> make_sim_allocator(std::int64_t value_bytes);

}  // namespace tessera
