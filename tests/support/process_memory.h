// tests/support/process_memory.h: what this process holds of the machine's memory, whatever
// allocator it is linked with.
#pragma once

#include <malloc.h>

#include <cstdint>

#if __has_include(<mimalloc.h>)
#include <mimalloc.h>

extern "C" {  // there where it is linked
void mi_collect(bool force) noexcept __attribute__((weak));
mi_heap_t* mi_heap_get_default() __attribute__((weak));
bool mi_heap_visit_blocks(const mi_heap_t* heap, bool each_block, mi_block_visit_fun* visitor,
                          void* arg) __attribute__((weak));
}
#endif

namespace tessera::testing {

/// Bytes of the blocks that were asked for and not given back: with mimalloc by this thread, else
/// by all. It is the allocator's own count: what is resident falls whenever other threads' free
/// pages are returned.
inline std::int64_t allocated_bytes() {
#if __has_include(<mimalloc.h>)
  if (mi_heap_visit_blocks != nullptr) {
    std::int64_t bytes = 0;
    const auto add = [](const mi_heap_t*, const mi_heap_area_t* area, void*, std::size_t,
                        void* sum) {
      *static_cast<std::int64_t*>(sum) += static_cast<std::int64_t>(area->used * area->block_size);
      return true;
    };
    mi_heap_visit_blocks(mi_heap_get_default(), false, add, &bytes);
    return bytes;
  }
#endif
  const struct mallinfo2 held = ::mallinfo2();
  return static_cast<std::int64_t>(held.uordblks + held.hblkhd);
}

/// Gives back what the allocator keeps for later. A process that is started begins with the
/// memory of the one that it comes from.
inline void return_free_memory() {
#if __has_include(<mimalloc.h>)
  if (mi_collect != nullptr) mi_collect(true);
#endif
  ::malloc_trim(0);
}

}  // namespace tessera::testing
