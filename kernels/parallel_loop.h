// kernels/parallel_loop.h: loops shared among a rank's library threads.
// Pieces start at multiples of the grain whatever the number of threads, so results do not depend
// on it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"

namespace tessera::kernels {

/// Elements below which waking a second thread costs more than it saves.
inline constexpr std::int64_t kParallelElements = 32768;

/// Thread sanitizer does not see libgomp's barriers, so a build with it runs on the calling thread.
inline int usable_threads(int threads, std::int64_t work_elements) noexcept {
#ifdef __SANITIZE_THREAD__
  static_cast<void>(work_elements);
  return std::min(threads, 1);
#else
  return work_elements < kParallelElements ? 1 : threads;
#endif
}

/// Calls f(begin, end) over [0, count) in one piece per thread, cut at multiples of `grain`. f must
/// not throw. `elements_each`: the work of one item, in elements. f is no template parameter: its
/// loops would be compiled twice, for one thread and for many.
void parallel_ranges(int threads, std::int64_t count, std::int64_t grain,
                     std::int64_t elements_each,
                     absl::FunctionRef<void(std::int64_t begin, std::int64_t end)> f);

/// The same for the shortest kernels: one thread runs f in place.
template <class F>
void parallel_ranges_inlined(int threads, std::int64_t count, std::int64_t grain,
                             std::int64_t elements_each, F&& f) {
  if (usable_threads(threads, count * elements_each) > 1) {
    parallel_ranges(threads, count, grain, elements_each, f);
  } else if (count > 0) {
    f(std::int64_t{0}, count);
  }
}

}  // namespace tessera::kernels
