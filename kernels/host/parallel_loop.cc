#include "kernels/parallel_loop.h"

#include <omp.h>

#include <exception>

#include "kernels/parallel_tasks.h"

namespace tessera::kernels {

void parallel_ranges(int threads, std::int64_t count, std::int64_t grain,
                     std::int64_t elements_each,
                     absl::FunctionRef<void(std::int64_t begin, std::int64_t end)> f) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t usable = usable_threads(threads, count * elements_each);
  const int used = static_cast<int>(std::min<std::int64_t>(usable, grains));
  if (used <= 1) {
    if (count > 0) f(0, count);
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

void parallel_workers(int threads, std::int64_t count, absl::FunctionRef<Worker()> begin) {
  if (count <= 0) return;
  if (threads <= 1 || count == 1 || omp_in_parallel() != 0) {
    Worker work = begin();
    for (std::int64_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    Worker work;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < count; ++i) {
      try {
        if (!work) work = begin();
        work(i);
      } catch (...) {
#pragma omp critical(tessera_parallel_workers)
        if (!failure) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void parallel_tasks(int threads, std::int64_t count, absl::FunctionRef<void(std::int64_t i)> body) {
  parallel_workers(threads, count, [body]() -> Worker { return body; });
}

}  // namespace tessera::kernels
