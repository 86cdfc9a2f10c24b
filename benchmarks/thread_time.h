// benchmarks/thread_time.h: what one thread has computed, whatever runs beside it.
#pragma once

#include <ctime>

namespace tessera::bench {

/// Processor time of the calling thread. Units: seconds.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace tessera::bench
