// tests/support/process_memory.h: what this process holds of the machine's memory, whatever
// allocator it is linked with.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

extern "C" void mi_collect(bool force) __attribute__((weak));  // mimalloc's, where it is linked

namespace tessera::testing {

/// Bytes that are in memory now, of the program itself and all that it has asked for.
inline std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  statm >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// Gives back what the allocator keeps for later. A process that is started begins with the
/// memory of the one that it comes from.
inline void return_free_memory() {
  if (mi_collect != nullptr) mi_collect(true);
  ::malloc_trim(0);
}

}  // namespace tessera::testing
