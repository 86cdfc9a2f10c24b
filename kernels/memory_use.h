// kernels/memory_use.h: how much memory an allocator has handed out. Allocators that count say so
// by being a CountingAllocator.
#pragma once

#include <cstdint>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Units: bytes, with what rounding up to size classes adds.
struct MemoryUse {
  std::int64_t used_bytes = 0;  ///< now
  std::int64_t peak_bytes = 0;  ///< the most so far
};

class CountingAllocator : public Allocator {
 public:
  /// Any thread.
  virtual MemoryUse use() const noexcept = 0;
};

/// Zeros for an allocator that does not count; the one of make_pool_allocator() does.
MemoryUse memory_use_of(const Allocator& allocator) noexcept;

/// Like make_pool_allocator(), on blocks of `source`: memory that other processes read, for one.
std::shared_ptr<CountingAllocator> make_pool_over(std::shared_ptr<Allocator> source);

}  // namespace tessera
