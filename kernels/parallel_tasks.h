// kernels/parallel_tasks.h: independent pieces of work of unequal size, shared among a rank's
// library threads. Which thread runs a piece never changes what it computes.
#pragma once

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <optional>

#include "kernels/parallel_loop.h"

namespace tessera::kernels {

/// Calls body(i) for every i in [0, count), in any order, on at most `threads` threads; inside such
/// a loop in the caller. The first exception of a body is thrown after the loop.
template <class Body>
void parallel_tasks(int threads, std::int64_t count, const Body& body) {
  if (threads <= 1 || count <= 1 || omp_in_parallel()) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (std::int64_t i = 0; i < count; ++i) {
    try {
      body(i);
    } catch (...) {
#pragma omp critical(tessera_parallel_tasks)
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// The same for pieces that need memory: each thread that has any work makes one worker, and calls
/// body(worker, i) for its pieces.
template <class Make, class Body>
void parallel_workers(int threads, std::int64_t count, const Make& make, const Body& body) {
  if (threads <= 1 || count <= 1 || omp_in_parallel()) {
    if (count <= 0) return;
    auto worker = make();
    for (std::int64_t i = 0; i < count; ++i) body(worker, i);
    return;
  }
  std::exception_ptr failure;
#pragma omp parallel num_threads(threads)
  {
    std::optional<decltype(make())> worker;
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t i = 0; i < count; ++i) {
      try {
        if (!worker) worker.emplace(make());
        body(*worker, i);
      } catch (...) {
#pragma omp critical(tessera_parallel_tasks)
        if (!failure) failure = std::current_exception();
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

/// Threads worth waking for a product with these extents (multiply-adds: their product).
inline int product_threads(int threads, std::initializer_list<std::int64_t> extents) noexcept {
  constexpr double kAddsPerElement = 16;  // what one element of a map costs
  double adds = 1;
  for (const std::int64_t extent : extents) adds *= static_cast<double>(extent);
  constexpr double kMost = 1e15;
  return usable_threads(threads,
                        static_cast<std::int64_t>(std::min(adds, kMost) / kAddsPerElement));
}

}  // namespace tessera::kernels
