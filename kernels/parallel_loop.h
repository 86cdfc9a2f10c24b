// kernels/parallel_loop.h: loops shared among a rank's library threads.
// Pieces start at multiples of the grain whatever the number of threads, so results do not depend
// on it.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

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
/// not throw. `elements_each`: the work of one item, in elements.
template <class F>
void parallel_ranges(int threads, std::int64_t count, std::int64_t grain,
                     std::int64_t elements_each, F&& f) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t usable = usable_threads(threads, count * elements_each);
  const int used = static_cast<int>(std::min<std::int64_t>(usable, grains));
  if (used <= 1) {
    if (count > 0) f(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(used)
  {
    const std::int64_t team = omp_get_num_threads();
    const std::int64_t self = omp_get_thread_num();
    const std::int64_t begin = grains * self / team * grain;
    const std::int64_t end = std::min(count, grains * (self + 1) / team * grain);
    if (begin < end) f(begin, end);
  }
}

}  // namespace tessera::kernels
